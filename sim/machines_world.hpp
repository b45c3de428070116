// Simulates a job on several hosts: the first with the supervisor and its own processes, the others with an agent and
// its processes, connections between them, and a virtual clock. Owns the world, its hosts and its faults; decisions and
// message frames are production code, and the run that results is in job_run.hpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/linear_link.hpp"
#include "plan/choose/cost.hpp"
#include "sim/fault.hpp"
#include "sim/job_run.hpp"
#include "sim/processes_world.hpp"
#include "sim/terms/term_record.hpp"

namespace troupe::sim {

/// Faults of hosts and their processes at any message, for searches over all moments.
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
/// Returns the kind as a text, such as "cut data".
std::string_view name_of(machine_trouble kind);

/// A fault that strikes when the job's processes have sent and received a number of messages.
struct machine_event {
  machine_trouble kind = machine_trouble::partition;
  uint32_t machine = 1, place = 0;  ///< host, and process
  uint64_t after_messages = 0;
  int64_t duration_ns = 0;
  [[nodiscard]] std::string describe() const;
};

/// Hosts, steps, saves and faults of a simulated job on several hosts. All timeouts are a twentieth of a real job's
/// defaults, so that runs are short.
struct machines_options {
  uint64_t seed = 0;  ///< decides the order and the latency of messages, and the times of instructions
  /// [process]: its host, in ascending order from 0, where the supervisor is. Empty: the configuration's
  /// (cluster.hosts); for plans, three hosts of one process.
  std::vector<uint32_t> hosts = {};
  uint32_t ranks_each = 1;  ///< ranks of each process of a world of plans; a configuration has its own
  /// A world of plans: the number of data ranks has to divide this number; 0: any number is possible.
  uint32_t divides = 0;
  uint64_t steps = 10;
  /// Steps between saves in memory (`checkpoint.memory.every_steps`); 0: none. nullopt: the configuration's, or 1.
  std::optional<uint64_t> memory_every = {};
  /// Steps between checkpoints on the disk, which all hosts share (`checkpoint.every_steps`); 0: none. nullopt: the
  /// configuration's, or 0.
  std::optional<uint64_t> disk_every = {};
  /// Rates of the machines. nullopt: the usual ones of the configuration's device and types; of plans, the defaults.
  std::optional<plan::cost_model> costs = {};
  fabric::linear_link between_hosts = {50, 1.25e9};  ///< link of collectives whose members are on several hosts
  std::chrono::nanoseconds lost_after{std::chrono::milliseconds(250)};  ///< silence of a lost host or process
  std::chrono::nanoseconds backoff{std::chrono::milliseconds(25)};      ///< wait before a process is started again
  std::chrono::nanoseconds stall_after{std::chrono::seconds(3)};        ///< limit for waiting ranks
  std::chrono::nanoseconds work_min{std::chrono::seconds(6)};           ///< least limit for working ranks
  std::vector<fault> faults = {};
  std::vector<machine_event> events = {};
  planted defect = planted::nothing;  ///< for tests of the simulation
};

/// A simulated job on several hosts. What is lost with a rank, a host or a link costs a term; the job goes on with what
/// is left. A world is made once and can run many times; the same seed gives the same run, to the last message.
class machines_world {
 public:
  /// Makes a world of the job that `config` describes. Throws world_error for hosts that the job cannot have, and for
  /// faults that it does not have; a run throws the errors of job::make_plans().
  explicit machines_world(std::shared_ptr<const config::job_config> config, machines_options options = {});
  /// Makes a world of plans. Each rank is a data rank.
  explicit machines_world(plans_at_degree plans, machines_options options = {});

  /// Returns the same world with one more fault. The faults are those of processes_world, and of hosts and links:
  /// kill(host), but not of host 0, freeze(host) and cut(link) happen in a step (the first one unless chosen) or at a
  /// time; slow(link) and late(link) last for the whole run. A host that is killed does not come back.
  [[nodiscard]] machines_world with(fault f) const;
  [[nodiscard]] machines_world with(machine_event e) const;

  /// Runs the job until it has ended on all hosts, with the world's seed or another one.
  [[nodiscard]] job_run run() const { return run(options_.seed); }
  [[nodiscard]] job_run run(uint64_t seed) const;

 private:
  void prepare();

  std::shared_ptr<const simulated_job> job_;
  machines_options options_;
};

}  // namespace troupe::sim
