// The way through the settings of knobs to the step that takes least time in the memory that there is. Owns the order
// in which settings are tried and when that ends; what a setting needs it asks (fit.cpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "core/error.hpp"
#include "plan/choose/fit.hpp"

namespace troupe::plan {

/// The part of a step that a choice of sizes must save to be taken; less is within what predictions are good for.
inline constexpr double worth_it = 0.002;

/// Deterministic. A setting is judged once.
class knob_search {
 public:
  using levels = std::vector<size_t>;  ///< [knob]: which of its settings; as many as it has: `hiding`
  using judge = std::function<core::result<fitted>(const levels& at)>;
  enum class memory : uint8_t { limited, free };  ///< whether `fitted::fits` may be false

  knob_search(const std::vector<knob>& knobs, judge judge, memory how)
      : knobs_(knobs), judge_(std::move(judge)), memory_(how) {}

  /// From the smallest settings up: while they do not fit (small pieces may waste memory) the change that needs less;
  /// then, one after the other, the one that saves most time for a byte, until none saves `worth_it` of the step.
  /// Errors: the judge's.
  core::result<fitted> climbed();

  /// The same. Then each further setting of a knob is tried for what it takes from others: those give up what costs
  /// least time for a byte, until the limits hold, and the predicted step alone decides.
  core::result<fitted> climbed_and_traded();

  /// `best`, which one of the two has found, with copies hidden: knobs below their `hiding_from` take `hiding`, and
  /// others make room, where the step stays within `worth_it`.
  core::result<fitted> hidden(fitted best);

  /// climbed_and_traded, and from the best of all down, and down from settings drawn at random (always the same), each
  /// followed by other settings of one knob and of two: one change after the other may end where three at a time would
  /// go on.
  core::result<fitted> best_of_starts();

 private:
  enum class whether : uint8_t { fits, any };  ///< the limits count, or not

  core::result<fitted> judged(const levels& at);
  /// The best next setting of one knob; none if none is worth it. `worth` of a candidate: above 0.
  core::result<levels> further(const levels& at, const std::function<double(const fitted&)>& worth);
  /// `at` ends where it ends.
  core::result<fitted> climb(levels& at, whether counted);
  /// Gives settings up until the limits hold, each time the one that costs least time for a byte; never of `kept`.
  core::result<fitted> reduced(levels& at, fitted best, size_t kept = SIZE_MAX);
  /// Settings of one knob, then of two, as long as that helps, and within a number of plans.
  core::result<fitted> polished(levels at, fitted best);
  /// At most so many settings of a knob, the first and the last among them.
  [[nodiscard]] std::vector<size_t> spread(size_t k, size_t most) const;

  const std::vector<knob>& knobs_;
  judge judge_;
  memory memory_;
  std::map<levels, fitted> known_;
  levels found_;  // settings of the last answer of climbed and climbed_and_traded
};

}  // namespace troupe::plan
