// Simulates a job of several processes on one machine: the production supervision, process states, message frames and
// actors of ranks on a virtual clock, with terms, saves and recovery. Owns the world, its hardware and its faults; the
// run that results is in job_run.hpp.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/sim/sim.hpp"
#include "plan/choose/cost.hpp"
#include "sim/fault.hpp"
#include "sim/job_run.hpp"
#include "sim/terms/term_record.hpp"

namespace troupe::config {
struct job_config;
}

namespace troupe::sim {

struct simulated_job;

/// Returns the plans of a job with a number of data ranks, by plan_choice: those that train, train and save, and save.
using plans_at_degree = std::function<std::vector<actors::shared_rank_plans>(uint32_t data)>;

/// Faults of processes and their links at any message, for searches over all moments.
enum class trouble_kind : uint8_t {
  killed,   ///< the process is killed; messages that it has sent still arrive
  stopped,  ///< a signal stops the process; another one continues it later
  supervisor_stopped,
  partition,       ///< no message passes in either direction for some time
  partition_down,  ///< the process receives nothing for some time
  partition_up,    ///< the supervisor receives nothing from the process for some time
  link_cut,        ///< the link closes; messages that have not arrived are lost
  link_garbled,    ///< the supervisor receives bytes that are no valid message
  executor_error,  ///< an instruction fails with an error
};
inline constexpr size_t num_trouble_kinds = 9;
/// Returns the kind as a text, such as "cut link".
std::string_view name_of(trouble_kind kind);

/// A fault that strikes when the job's links have delivered a number of messages.
struct trouble {
  trouble_kind kind = trouble_kind::killed;
  uint32_t place = 0;           ///< process
  uint64_t after_messages = 0;  ///< the fault strikes when all links together have delivered this number of messages
  int64_t duration_ns = 0;
  [[nodiscard]] std::string describe() const;
};

/// Processes, steps, saves and faults of a simulated job on one machine. All timeouts are a twentieth of a real job's
/// defaults, so that runs are short.
struct processes_options {
  uint64_t seed = 0;        ///< decides the order and the latency of messages, and the times of instructions
  uint32_t processes = 0;   ///< processes with ranks at first; 0: the configuration's, or 2 for plans
  uint32_t spares = 0;      ///< processes that wait, of a world of plans; a configuration has its own
  uint32_t ranks_each = 1;  ///< ranks of each process of a world of plans; a configuration has its own
  uint64_t steps = 10;
  /// Steps between saves in memory (`checkpoint.memory.every_steps`); 0: none. nullopt: the configuration's, or 1.
  std::optional<uint64_t> memory_every = {};
  /// Steps between checkpoints on the disk (`checkpoint.every_steps`); 0: none. nullopt: the configuration's, or 0.
  std::optional<uint64_t> disk_every = {};
  /// Rates of the machine. nullopt: the usual ones of the configuration's device and types; of plans, the defaults.
  std::optional<plan::cost_model> costs = {};
  std::chrono::nanoseconds lost_after{std::chrono::milliseconds(250)};  ///< silence of a lost process
  std::chrono::nanoseconds backoff{std::chrono::milliseconds(25)};      ///< wait before a process is started again
  std::chrono::nanoseconds stall_after{std::chrono::seconds(3)};        ///< limit for waiting ranks
  std::chrono::nanoseconds work_min{std::chrono::seconds(6)};           ///< least limit for working ranks
  std::vector<fault> faults = {};
  std::vector<trouble> troubles = {};
  planted defect = planted::nothing;  ///< for tests of the simulation
};

/// A simulated job of several processes. A rank that is killed is a process that is lost: the job goes on in a new
/// term. A world is made once and can run many times; the same seed gives the same run, to the last message.
class processes_world {
 public:
  /// Makes a world of the job that `config` describes. Throws world_error for processes that the job cannot have, and
  /// for faults that it does not have; a run throws the errors of job::make_plans().
  explicit processes_world(std::shared_ptr<const config::job_config> config, processes_options options = {});
  /// Makes a world of plans. Each rank is a data rank, and any number of them can train.
  explicit processes_world(plans_at_degree plans, processes_options options = {});

  /// Returns the same world with one more fault. A fault has the places and moments of a world of one process, but no
  /// instruction as its moment: kill(rank), freeze(rank or host), freeze_disk and late_message happen in a step (the
  /// first one unless chosen) or at a time; faults of instructions, slow(rank) and full_disk in steps.
  [[nodiscard]] processes_world with(fault f) const;
  [[nodiscard]] processes_world with(trouble t) const;

  /// Runs the job until it and its processes have ended, with the world's seed or another one.
  [[nodiscard]] job_run run() const { return run(options_.seed); }
  [[nodiscard]] job_run run(uint64_t seed) const;

 private:
  void prepare();

  std::shared_ptr<const simulated_job> job_;
  processes_options options_;
};

}  // namespace troupe::sim
