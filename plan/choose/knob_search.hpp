// Searches the settings of knobs for the step that takes least time in the available memory. Owns the order in which
// settings are tried and the end of the search; its caller (fit.cpp) computes the needs of a setting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "core/error.hpp"
#include "plan/choose/fit.hpp"

namespace troupe::plan {

/// Minimum share of the step that a choice of sizes must save to be taken. Smaller savings are below the accuracy of
/// predictions.
inline constexpr double worth_it = 0.002;

/// Search for the fastest options within memory limits, one option (knob) at a time. Deterministic; each setting is
/// evaluated once.
class knob_search {
 public:
  using levels = std::vector<size_t>;  ///< [knob]: index of the chosen setting; the number of settings means `hiding`
  using judge = std::function<core::result<fitted>(const levels& at)>;
  enum class memory : uint8_t { limited, free };  ///< limited: a result whose `fitted::fits` is false is possible

  knob_search(const std::vector<knob>& knobs, judge judge, memory how)
      : knobs_(knobs), judge_(std::move(judge)), memory_(how) {}

  /// Climbs from the smallest settings up. While they do not fit (small pieces may waste memory), it takes the change
  /// that needs less memory; then, one after the other, the change that saves most time for a byte, until none saves
  /// `worth_it` of the step. Errors: the judge's.
  core::result<fitted> climbed();

  /// Climbs as climbed() does. Then it tries each further setting of a knob in exchange for memory of other knobs:
  /// these give up the settings that cost least time for a byte, until the limits hold; the predicted step alone
  /// decides.
  core::result<fitted> climbed_and_traded();

  /// Returns `best`, a result of climbed() or climbed_and_traded(), with copies hidden: each knob below its
  /// `hiding_from` takes `hiding`, and other knobs give up memory for it, if the step stays within `worth_it`.
  core::result<fitted> hidden(fitted best);

  /// Runs climbed(), then descends from the best setting without limits, and from settings drawn at random (always the
  /// same ones). After each of these it tries other settings of one knob and of two, because a search by single changes
  /// may end where several changes together would improve the step.
  core::result<fitted> best_of_starts();

 private:
  enum class whether : uint8_t { fits, any };  ///< fits: memory limits count; any: they are ignored

  core::result<fitted> judged(const levels& at);
  /// Returns the best next setting of one knob; empty if none is worth it. `worth` of a candidate must be above 0.
  core::result<levels> further(const levels& at, const std::function<double(const fitted&)>& worth);
  /// Improves the setting `at` step by step. On return, `at` is the setting at which no step improves it further.
  core::result<fitted> climb(levels& at, whether counted);
  /// Gives settings up until the limits hold, each time the one that costs least time for a byte, but never settings of
  /// knob `kept`.
  core::result<fitted> reduced(levels& at, fitted best, size_t kept = SIZE_MAX);
  /// Tries settings of one knob, then of two, as long as that improves the step, and within a limit of plans.
  core::result<fitted> polished(levels at, fitted best);
  /// Returns at most `most` settings of knob `k`, including the first and the last.
  [[nodiscard]] std::vector<size_t> spread(size_t k, size_t most) const;

  const std::vector<knob>& knobs_;
  judge judge_;
  memory memory_;
  std::map<levels, fitted> known_;
  levels found_;  // settings of the last result of climbed(), climbed_and_traded() or hidden()
};

}  // namespace troupe::plan
