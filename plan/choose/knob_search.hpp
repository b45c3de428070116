// Searches the settings of knobs for the step that takes least time in the available memory. Owns the order in which
// settings are tried and the end of the search; its caller (size_search.cpp) computes the needs of a setting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "core/error.hpp"
#include "plan/choose/size_search.hpp"

namespace troupe::plan {

/// Minimum fraction of the predicted step time that a change of settings must save to be made. Smaller savings are
/// below the accuracy of predictions.
inline constexpr double worth_it = 0.002;

/// Search for the fastest options within memory limits, one option (knob) at a time. Deterministic; each setting is
/// evaluated once.
class knob_search {
 public:
  using levels = std::vector<size_t>;  ///< [knob]: index of the chosen setting; one past the last: knob::hiding
  using judge = std::function<core::result<fitted>(const levels& at)>;
  /// limited: `judge` compares options with memory limits; free: there are no limits, so windows for swapping are
  /// limited by the size of the swapped states
  enum class memory : uint8_t { limited, free };

  knob_search(const std::vector<knob>& knobs, judge judge, memory how)
      : knobs_(knobs), judge_(std::move(judge)), memory_(how) {}

  /// Climbs from the smallest settings up. As long as they exceed the limits (small pieces may waste memory), the
  /// search makes the change that needs less memory; then, one after the other, the change that saves most time for a
  /// byte, until none saves `worth_it` of the step. Fails if `judge` does.
  core::result<fitted> climbed();

  /// Runs climbed(), then tries each further setting of a knob in exchange for memory of other knobs: while a limit is
  /// exceeded, the setting is lowered that costs least time for a byte that it saves. A change is kept if the predicted
  /// step is shorter.
  core::result<fitted> climbed_and_traded();

  /// Changes `best`, a result of climbed() or climbed_and_traded(), so that copies overlap with computation: each knob
  /// below its `hiding_from` is set to `hiding`, and other knobs are lowered until the limits hold, if the predicted
  /// step gets longer by at most `worth_it`. Returns the changed options.
  core::result<fitted> hidden(fitted best);

  /// Runs climbed(), then starts again from the best settings without memory limits and from settings drawn at random
  /// (always the same ones), and lowers them until the limits hold. After each start it tries other settings of one
  /// knob and of two, because a search by single changes may end where several changes together would improve the step.
  core::result<fitted> best_of_starts();

 private:
  enum class whether : uint8_t { fits, any };  ///< fits: memory limits count; any: they are ignored

  core::result<fitted> judged(const levels& at);
  /// Tries further settings of each knob of `at`, one knob at a time, and returns the settings with the largest
  /// `worth`; empty if `worth` is above 0 for none.
  core::result<levels> further(const levels& at, const std::function<double(const fitted&)>& worth);
  /// Improves the setting `at` step by step. On return, `at` is the setting at which no step improves it further.
  core::result<fitted> climb(levels& at, whether counted);
  /// Lowers settings until the memory limits hold, each time the setting whose change costs least time for a byte
  /// that it saves, but never the setting of knob `kept`.
  core::result<fitted> reduced(levels& at, fitted best, size_t kept = SIZE_MAX);
  /// Starts at the settings `at`, whose step is `best`; tries other settings of one knob, then of two, as long as that
  /// makes the step faster, for at most `polish_plans_max` plans.
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
