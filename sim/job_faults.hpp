// Owns how the faults of a simulated job of several processes happen: those of executors in which run, those of
// processes, hosts, links and the disk at which moment. The worlds do what they ask for.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "fabric/linear_link.hpp"
#include "plan/choose/cost.hpp"
#include "plan/plan_choice.hpp"
#include "sim/fault.hpp"
#include "sim/history.hpp"
#include "sim/simulated_job.hpp"
#include "sim/terms/simulated_process.hpp"

namespace troupe::sim {

/// Number of steps of the job, and which of them are saved.
struct steps_of_job {
  uint64_t all = 0, memory_every = 1, disk_every = 0;
};

/// The faults of one run of a world.
class job_faults {
 public:
  /// Checks the faults and remembers them. Throws world_error for a fault that the job cannot have: a rank, host, step
  /// or instruction that it does not have, or a moment that the fault cannot have. `between_hosts`: the link of
  /// collectives whose members are on several hosts, if links have times of their own.
  job_faults(std::vector<fault> faults, simulated_job job, steps_of_job steps,
             std::optional<fabric::linear_link> between_hosts);

  /// Returns the faults of executors in a run.
  std::vector<run_fault> of_run(const run_of_term& run);
  /// Records that the fault with this number has happened.
  void has_happened(size_t number, int64_t at_ns);
  /// Returns the numbers of the faults of processes, hosts, links, messages and the disk whose moment has come and that
  /// have not happened. `step`: number of the step that runs, or 0; `since_ns`: virtual time since the job began.
  [[nodiscard]] std::vector<size_t> due(uint64_t step, int64_t since_ns) const;
  /// Returns when the next fault with a time of its own is due, as a time since the job began; INT64_MAX: none is.
  [[nodiscard]] int64_t due_ns(int64_t since_ns) const;
  [[nodiscard]] bool is_empty() const { return faults_.empty(); }

  [[nodiscard]] const fault& operator[](size_t number) const { return faults_[number]; }
  /// Returns the rates of the disk and the processors, with the faults that last for the whole run.
  [[nodiscard]] plan::cost_model costs(plan::cost_model usual) const;
  /// Returns the link of each communicator, by the hosts of the ranks. Empty: links have no times of their own.
  [[nodiscard]] std::vector<fabric::linear_link> links(const plans_by_choice& plans,
                                                       const std::vector<uint32_t>& hosts) const;
  /// Returns what happened, for the record of a run that began at `began_ns`.
  [[nodiscard]] std::vector<strike> strikes(int64_t began_ns) const;

 private:
  /// Returns true if the fault happens to an executor, in a run.
  [[nodiscard]] static bool is_of_run(const fault& f);
  void check(const fault& f) const;
  /// Returns the kinds of all steps; with `disk_only`, saves in memory count as none.
  [[nodiscard]] std::vector<plan::plan_choice> kinds(bool disk_only) const;
  /// Returns true if a step, counted from 1, writes a checkpoint to the disk.
  [[nodiscard]] bool writes_disk(uint64_t step) const;

  std::vector<fault> faults_;
  simulated_job job_;
  steps_of_job steps_;
  std::optional<fabric::linear_link> between_hosts_;
  std::vector<int64_t> at_ns_;  ///< [fault]: virtual time at which it happened; history::never: it did not
};

}  // namespace troupe::sim
