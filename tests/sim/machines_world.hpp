// Simulates a job on several machines: the first with the supervision and its own processes, the others with an agent
// and its processes, connections between them, a virtual clock, and faults chosen by a seed. Owns time and faults;
// decisions and frames are production code (cluster/supervision.hpp, agent_links.hpp, agent_state.hpp,
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

/// A fault of a machine, or of a process of the machine.
enum class machine_trouble : uint8_t {
  partition,        ///< no message passes in either direction, for a while
  partition_down,   ///< the agent receives nothing; data of the machine's processes wait
  partition_up,     ///< nothing of the agent arrives; data of the machine's processes wait
  agent_killed,     ///< the links of the agent's processes end; a new agent joins later
  agent_stopped,    ///< the agent is stopped and later continued
  machine_lost,     ///< agent and processes vanish without a message; a new agent joins later
  control_cut,      ///< the agent's connection ends
  data_cut,         ///< the connections between the processes of two machines end
  process_killed,   ///< messages that the process has sent still arrive
  process_stopped,  ///< the process is stopped and later continued
  supervisor_stopped,
  executor_error,  ///< an instruction fails
  comes_unfit,     ///< the machine is lost and comes back without what a term needs
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

/// `cluster.lost_after` of simulated jobs in ns; all times of these jobs are a twentieth of a real job's.
inline constexpr int64_t machines_lost_after_ns = 250'000'000;

struct machines_scenario {
  uint64_t seed = 0;
  std::vector<uint32_t> machines{0, 1, 2};  ///< [place]; machine of the process
  uint32_t ranks_each = 1, stage = 0;
  uint32_t divides = 0;  ///< the number of data ranks must divide this; 0: any number is allowed
  uint64_t steps = 10;
  std::vector<machine_event> all;
  planted defect = planted::nothing;
};
machines_scenario machines_scenario_of(uint64_t seed);
/// Returns a scenario whose only fault is a partition, too short for a process to give up its ranks.
machines_scenario short_cuts_of(uint64_t seed);

/// Returns a scenario of four machines with one rank each, of which one is lost. Three ranks cannot train, because
/// three does not divide four, so two of the remaining machines have ranks.
machines_scenario one_lost_of_four(uint64_t seed);

/// Simulates the job until it has ended on all machines, or an invariant is broken.
job_result play_machines(const machines_scenario& s);

}  // namespace troupe::actors
