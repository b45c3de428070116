// Counts how often a run has lost processes and what that cost, over all of its terms. Owns the limits beyond which a
// run ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cluster/messages.hpp"

namespace troupe::cluster {

/// How often a run has lost processes so far, and the repeated steps and the time that this cost. The supervisor fills
/// it; used by one thread.
class loss_record {
 public:
  /// `losses_max`: number of losses that a run recovers from; the next one ends the run.
  explicit loss_record(uint32_t losses_max) : losses_max_(losses_max) {}

  /// Counts a loss of one or several processes. The supervisor calls it once for all processes with ranks that are lost
  /// while one term ends.
  void count() { ++losses_; }
  /// Counts a loss in the number of losses in a row; saved() sets that number back to 0, because a step was done.
  void count_fruitless() { ++fruitless_; }
  /// Records that the states after `step` steps are saved in memory.
  void saved(uint64_t step);
  /// Called when the steps of a term end at `now_ns`.
  void term_ended(int64_t now_ns) { without_term_ns_ = now_ns; }
  /// Called when a term with `data` data-parallel ranks begins at `now_ns` with the states after `step` steps. Later
  /// steps that were done before count as repeated, and recorded changes of the data-parallel degree at `step` or later
  /// are removed.
  void term_began(uint64_t step, uint32_t data, int64_t now_ns);

  /// Returns the totals of the run at time `now_ns` (degrees, steps, repeated steps, time without a running term). The
  /// processes of the next term receive them.
  [[nodiscard]] run_so_far so_far(int64_t now_ns) const;
  /// Returns the reason why the run may not recover from another loss; nothing if it may.
  [[nodiscard]] std::optional<std::string> beyond_limit() const;

 private:
  uint32_t losses_max_;
  uint32_t losses_ = 0, fruitless_ = 0;
  run_so_far before_;
  std::optional<int64_t> without_term_ns_;  // time at which the last term's steps ended; set while no term runs
};

}  // namespace troupe::cluster
