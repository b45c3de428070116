// Simulates a job on several machines: the first with the supervisor and its own processes, the others with an agent
// and its processes, connections between them, a virtual clock, and faults chosen by a seed. Owns time and faults;
// decisions and message frames are production code (cluster/supervision.hpp, agent_links.hpp, agent_state.hpp,
// process_state.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/supervision.hpp"
#include "tests/sim/job_result.hpp"
#include "tests/sim/simulated_process.hpp"

namespace troupe::actors {

/// A fault of a machine, or of a process on the machine.
enum class machine_trouble : uint8_t {
  partition,        ///< no message passes in either direction for some time
  partition_down,   ///< the agent receives nothing for some time; data of the machine's processes is delayed
  partition_up,     ///< the launcher receives nothing from the agent for some time; data of the machine's processes is
                    ///< delayed
  agent_killed,     ///< the links to the agent's processes close; a new agent joins later
  agent_stopped,    ///< a signal stops the agent; another one continues it later
  machine_lost,     ///< agent and processes vanish without closing connections; a new agent joins later
  control_cut,      ///< the agent's connection closes
  data_cut,         ///< the connections between the processes of two machines close
  process_killed,   ///< the process is killed; messages that it has sent still arrive
  process_stopped,  ///< a signal stops the process; another one continues it later
  supervisor_stopped,
  executor_error,  ///< an instruction fails with an error
  comes_unfit,     ///< the machine is lost, and its new agent has no access to the training data
};
inline constexpr size_t num_machine_troubles = 13;
std::string_view name_of(machine_trouble kind);

struct machine_event {
  machine_trouble kind = machine_trouble::partition;
  uint32_t machine = 1, place = 0;
  uint64_t after_messages = 0;
  int64_t duration_ns = 0;
  [[nodiscard]] std::string describe() const;
};

/// Timeout `cluster.lost_after` of the simulated jobs in ns; all their timeouts are a twentieth of a real job's.
inline constexpr int64_t machines_lost_after_ns = 250'000'000;

struct machines_scenario {
  uint64_t seed = 0;
  std::vector<uint32_t> machines{0, 1, 2};  ///< [process]; index of the machine that it runs on
  uint32_t ranks_each = 1, stage = 0;
  uint32_t divides = 0;  ///< the number of data ranks must divide this number; 0: any number is allowed
  uint64_t steps = 10;
  std::vector<machine_event> all;
  planted defect = planted::nothing;
};
machines_scenario machines_scenario_of(uint64_t seed);
/// Returns a scenario whose only fault is a partition that ends before any process stops its ranks.
machines_scenario short_cuts_of(uint64_t seed);

/// Returns a scenario of four machines with one rank each, one of which is lost. Three data ranks do not divide the
/// batch of four, so only two of the remaining machines run ranks.
machines_scenario one_lost_of_four(uint64_t seed);

/// Simulates the job until it has ended on all machines, or until an invariant is broken.
job_result play_machines(const machines_scenario& s);

}  // namespace troupe::actors
