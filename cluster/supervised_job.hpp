// Description of a job of several processes, from which its supervisor works. Plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace troupe::cluster {

/// Description of a job for its supervisor. A process is identified by its place, a number counted from 0; a process
/// that is started again keeps this number.
struct supervised_job {
  /// number of processes that have ranks at first; number of spare processes, which wait
  uint32_t processes = 1, spares = 0;
  uint32_t ranks_each = 1;     ///< number of ranks of each process that has ranks
  uint32_t data = 1;           ///< number of data ranks at first
  uint32_t replica_ranks = 1;  ///< number of ranks of one copy of the model, such as pipeline times tensor ranks
  /// Returns the most data ranks that a term may have with `ranks` ranks. Errors: why there can be no further term.
  std::function<core::result<uint32_t>(uint32_t ranks)> feasible;
  /// Returns the state of a silent process according to the system: ": it is stopped (SIGSTOP)"; may be empty.
  std::function<std::string(uint32_t place)> condition{};
  int64_t lost_after_ns = 5'000'000'000;
  bool recovers = true;      ///< false: the run ends when a process or machine is lost
  bool starts_again = true;  ///< true if processes that were lost are started again
  /// True if a run with too few ranks to continue waits for processes that are started again; else it ends. A run that
  /// has lost all ranks waits in any case.
  bool waits_for_ranks = true;
  uint32_t losses_max = 10;  ///< largest number of losses that a run recovers from
  /// Nanoseconds before a lost process is started again; doubles with each loss of the process.
  int64_t backoff_ns = 500'000'000;
  /// [process]: number of its machine, counted from 0, the supervisor's machine; empty: all run on machine 0.
  std::vector<uint32_t> machines{};
  std::vector<std::string> hosts{};  ///< [machine]: name of the machine
  /// Returns a new secret for a term whose processes run on several machines.
  std::function<std::string()> secret{};
  /// Missing machines of a job that another machine led before; the first term does not wait for them. The term waits
  /// `gathers_ns` for the other machines, then begins without those that have not come; later machines join the run.
  std::vector<uint32_t> lost{};
  int64_t gathers_ns = INT64_MAX;

  [[nodiscard]] uint32_t machine_of(uint32_t place) const { return machines.empty() ? 0 : machines[place]; }
  [[nodiscard]] uint32_t places() const { return processes + spares; }
};
/// Maximum of supervised_job::backoff_ns after it was doubled: nanoseconds before a lost process is started again.
inline constexpr int64_t backoff_max_ns = 30'000'000'000;
/// Number of times that a machine may join a run and be unable to take part; then it is not tried again.
inline constexpr uint32_t times_left_out_max = 3;
/// Number of losses in a row, with no step done in between, that a run recovers from. The next one ends the run,
/// because the cause persists.
inline constexpr uint32_t fruitless_losses_max = 3;

}  // namespace troupe::cluster
