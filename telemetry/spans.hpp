// Owns the times of the instructions of one step, measured or simulated, and computes sums over such times.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "plan/choose/cost.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::telemetry {

/// A time interval in nanoseconds on a steady clock.
struct interval {
  int64_t start_ns = 0, end_ns = 0;
  [[nodiscard]] int64_t length_ns() const { return end_ns - start_ns; }
};

/// Start of an instruction that did not run, in the times of a step that failed.
inline constexpr int64_t not_run_ns = -1;

/// The shift that was added to times of another machine, so that they are times of the clock on the machine of the
/// process that leads the job.
struct clock_shift {
  int64_t offset_ns = 0;
  int64_t error_ns = 0;  ///< largest possible error of offset_ns
};

/// Times of one rank's step; `spans` has one entry per instruction of the plan.
struct rank_spans {
  std::shared_ptr<const plan::rank_plan> plan;
  std::vector<interval> spans;  ///< [instruction id]: its time; a collective starts when this rank posts it
  bool skipped = false;         ///< true if the vote (all-gather of gradient norms) found an overflow: no update
  /// [lane]: times in which the executor moved bytes, for a lane that starts instructions ahead; empty for other lanes,
  /// whose work is in `spans`.
  std::vector<interval> moved[plan::num_lanes] = {};
  std::vector<bool> told_others = {};  ///< [instruction id]: true if another lane was notified of its end
  bool clipped = false;                ///< true if the vote found no overflow and clipped the gradients
  std::optional<clock_shift> clock{};  ///< shift of these times; set for a rank on another machine whose clock is known

  /// True if an instruction with guard `g` acted in this step.
  [[nodiscard]] bool acted(plan::guard g) const {
    return plan::acts(g, skipped ? plan::branch::skipped : clipped ? plan::branch::clipped : plan::branch::not_skipped);
  }
};

/// Returns the times of a predicted step, one rank for each of its plans, in nanoseconds since the step began. As in
/// measured steps, a collective starts when it is posted and a swap when it is requested.
std::vector<rank_spans> spans_of(const plan::timeline& predicted);

/// Moves all times of a rank to another clock, and stores the shift in `r.clock`.
void shift(rank_spans& r, const clock_shift& by);

/// Returns the intervals sorted, with touching and overlapping ones joined.
std::vector<interval> joined(std::vector<interval> v);
int64_t length_ns(const std::vector<interval>& joined);
/// Returns the total length in ns of the times that are in an interval of `a` and in one of `b`. Requires that `joined`
/// made both lists.
int64_t common_length_ns(const std::vector<interval>& a, const std::vector<interval>& b);

class posted_times {  ///< computes the time at which the last member had posted each collective of a step
 public:
  /// Reads when each rank in `ranks` posted its collectives. The times that of() returns ignore members of a
  /// communicator that are not in `ranks`.
  explicit posted_times(std::span<const rank_spans> ranks);
  /// Returns the nanoseconds at which the last member had posted collective instruction `x` of any of the ranks.
  [[nodiscard]] int64_t of(const plan::instruction& x) const { return at_ns_[base_[x.communicator] + x.sequence]; }

 private:
  std::vector<size_t> base_;  // [communicator]: index in at_ns_ of the communicator's first collective
  // [base_ of the communicator + sequence]: time at which the last member posted the collective
  std::vector<int64_t> at_ns_;
};
/// Returns the time in which a collective moves data on a rank: from when the last member has posted it to its end.
interval moving(const rank_spans& rank, uint32_t id, const posted_times& posted);

/// Returns positions in `ranks` (the ranks of a job) of one rank for each part of the model, in the order of the parts:
/// the first rank if every rank has the whole model, else the first at each pipeline coordinate.
std::vector<size_t> stage_leaders(std::span<const rank_spans> ranks);

/// Milliseconds of one rank's step by DeepSpeed's timers. Each is the length of the union of its spans; sends and
/// receives count from when both ends have posted them.
struct step_breakdown {
  double forward_ms = 0;
  double backward_inner_ms = 0;      ///< milliseconds of backward and recomputation
  double backward_allreduce_ms = 0;  ///< milliseconds with a gradient reduction in progress
  double backward_ms = 0;            ///< milliseconds of backward, recomputation or a gradient reduction
  double step_ms = 0;                ///< milliseconds of norms, vote, all parts of the update, publishing
  double batch_input_ms = 0;         ///< milliseconds of waiting for tokens
  double pipe_send_output_ms = 0, pipe_send_grad_ms = 0, pipe_recv_input_ms = 0, pipe_recv_grad_ms = 0;

  step_breakdown& operator+=(const step_breakdown& x);
  step_breakdown operator/(double n) const;
};
/// Computes the times of rank `ranks[r]`. `ranks` must contain all members of its collectives, whose posting times are
/// needed.
step_breakdown break_down(std::span<const rank_spans> ranks, size_t r);

}  // namespace troupe::telemetry
