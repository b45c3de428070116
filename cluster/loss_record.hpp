// Counts the losses of a run and what they cost, over all of its terms. Owns the limits beyond which a run ends.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cluster/messages.hpp"

namespace troupe::cluster {

/// The losses of one run so far; used by one thread.
class loss_record {
 public:
  /// A run recovers from at most `losses_max` losses.
  explicit loss_record(uint32_t losses_max) : losses_max_(losses_max) {}

  /// Counts a loss; losses that end together count once.
  void count() { ++losses_; }
  /// Counts a loss without a step since the one before.
  void count_fruitless() { ++fruitless_; }
  /// Records that the states after `step` steps are saved in memory.
  void saved(uint64_t step);
  /// Called when the steps of a term end at `now_ns`.
  void term_ended(int64_t now_ns) { without_term_ns_ = now_ns; }
  /// Called when a term with `data` data ranks begins its steps at `now_ns`, after `step` steps. A run may continue
  /// from a step before its last change of degrees; changes from that step on are undone.
  void term_began(uint64_t step, uint32_t data, int64_t now_ns);

  /// Returns the counts of losses at time `now_ns`, for the process that leads the next term.
  [[nodiscard]] run_so_far so_far(int64_t now_ns) const;
  /// Returns the reason why the run may not recover from another loss; nothing if it may.
  [[nodiscard]] std::optional<std::string> beyond_limit() const;

 private:
  uint32_t losses_max_;
  uint32_t losses_ = 0, fruitless_ = 0;
  run_so_far before_;
  std::optional<int64_t> without_term_ns_;  // time since which no term runs, after the first one
};

}  // namespace troupe::cluster
