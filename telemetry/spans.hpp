// When the instructions of one step ran, apart from who measured it; and sums over such times.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "plan/rank_plan.hpp"

namespace troupe::telemetry {

/// Nanoseconds on a steady clock.
struct interval {
  int64_t start_ns = 0, end_ns = 0;
  [[nodiscard]] int64_t length_ns() const { return end_ns - start_ns; }
};

/// What was added to times of another machine to bring them onto the clock of the process that leads.
struct clock_shift {
  int64_t offset_ns = 0;
  int64_t error_ns = 0;  ///< by which that may be wrong
};

/// One rank's step; `spans` has one entry per instruction of the plan.
struct rank_spans {
  std::shared_ptr<const plan::rank_plan> plan;
  std::vector<interval> spans;  ///< [id]: fabric from its posting on
  bool skipped = false;         ///< the vote found an overflow
  /// [lane]: when the hands of a lane that starts ahead moved bytes; the others' work is their spans.
  std::vector<interval> moved[plan::num_lanes] = {};
  std::vector<bool> told_others = {};  ///< [id]: another lane was told of its end
  bool clipped = false;                ///< the vote found none, and clipped the gradients
  std::optional<clock_shift> clock{};  ///< of a rank on another machine whose clock is known

  /// Whether an instruction with this guard did something.
  [[nodiscard]] bool acted(plan::guard g) const {
    return plan::acts(g, skipped ? plan::branch::skipped : clipped ? plan::branch::clipped : plan::branch::not_skipped);
  }
};

/// Moves all times of a rank onto another clock, and remembers by how much.
void shift(rank_spans& r, const clock_shift& by);

/// Sorted, those that touch or overlap joined.
std::vector<interval> joined(std::vector<interval> v);
int64_t length_ns(const std::vector<interval>& joined);
/// Time that lies in both; each sorted and joined.
int64_t common_length_ns(const std::vector<interval>& a, const std::vector<interval>& b);

class posted_times {  ///< when the last member had posted each collective of a step
 public:
  /// `ranks` hold all members whose times count.
  explicit posted_times(std::span<const rank_spans> ranks);
  /// Of a collective instruction of any of the ranks. Nanoseconds.
  [[nodiscard]] int64_t of(const plan::instruction& x) const { return at_ns_[base_[x.communicator] + x.sequence]; }

 private:
  std::vector<size_t> base_;    // [communicator]
  std::vector<int64_t> at_ns_;  // [base + sequence]
};
/// A collective's time proper on a rank: from when the last member had posted it to its end.
interval moving(const rank_spans& rank, uint32_t id, const posted_times& posted);

/// One rank for each part of the model, in the order of the parts: the first where every rank has all of it, else the
/// first at each pipeline coordinate. Positions in `ranks`, which are those of a job.
std::vector<size_t> stage_leaders(std::span<const rank_spans> ranks);

/// Milliseconds of one rank's step as DeepSpeed's timers name them; each the length of the union of its spans, of sends
/// and receives once both ends have come.
struct step_breakdown {
  double forward_ms = 0;
  double backward_inner_ms = 0;      ///< backward and recomputation
  double backward_allreduce_ms = 0;  ///< gradient reductions under way
  double backward_ms = 0;            ///< either of the two
  double step_ms = 0;                ///< norms, vote, all of the update, publishing
  double batch_input_ms = 0;         ///< waiting for tokens
  double pipe_send_output_ms = 0, pipe_send_grad_ms = 0, pipe_recv_input_ms = 0, pipe_recv_grad_ms = 0;

  step_breakdown& operator+=(const step_breakdown& x);
  step_breakdown operator/(double n) const;
};
step_breakdown break_down(std::span<const rank_spans> ranks, size_t r);  ///< of rank r's part of the step

}  // namespace troupe::telemetry
