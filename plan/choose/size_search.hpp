// Chooses the settings that a configuration leaves open, so that a rank's states fit its memory: sizes of sub-groups,
// buckets and windows, which parameters are gathered ahead, which states stay in memory. Owns the search within one
// choice of tiers, and its order; tier_search.hpp tries tiers. The generator and the cost model compute the memory and
// time of a step with given settings; this file never does.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/error.hpp"
#include "plan/choose/compiled_step.hpp"
#include "plan/choose/cost.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// The settings that the configuration leaves open and that may be chosen. All other settings stay as in the options.
struct open_choices {
  bool sub_group = false;  ///< true: the search may choose updates.sub_group, which has an effect if states are swapped
  bool bucket = false;     ///< true: the search may lower gradients.reduce_bucket, never raise it
  bool state_slots = false;  ///< true: the search may choose tiers.state_slots, read_ahead and write_behind
  bool parameter_slots = false;
  bool gradient_slots = false;
  bool gathering = false;       ///< true: the search may lower the sizes in gather_options (stage 3), never raise them
  bool swap_gradients = false;  ///< true: the search may choose whether gradients are swapped
  bool resident_parameters = false;
  bool ratio = false;  ///< true: the search may choose the share of sub-groups that are offloaded
};

/// Limits in bytes of one rank; 0: no limit.
struct memory_limits {
  uint64_t states = 0;  ///< limit of budgeted_bytes (plan/memory_places.hpp), set by `cluster.host_memory_budget`
  uint64_t total = 0;   ///< limit of memory_table::total(), which includes activations
  uint64_t device = 0;  ///< limit of device_bytes (plan/memory_places.hpp), which includes activations
  [[nodiscard]] bool any() const { return states > 0 || total > 0 || device > 0; }
};

/// One dimension of the search: an option and its possible settings, ordered from the one that needs least memory.
struct knob {
  std::vector<std::function<void(plan_options&)>> settings;
  size_t look = 2;  ///< number of settings beyond the current one that the search tries at a time
  /// Index of the first of the knob's settings with which copies overlap with computation.
  size_t hiding_from = 0;
  /// The cheapest setting with which copies overlap with computation; it replaces a setting before `hiding_from` if the
  /// predicted step is equally fast. Null: this knob does not influence whether copies overlap.
  std::function<void(plan_options&)> hiding{};
};

/// The input of choose(): a step, its limits, and the options that are to be chosen.
struct fit_request {
  std::shared_ptr<const core::model_table> table;
  plan_options options;  ///< options of the training step; its memory budgets are ignored in favour of `limits`
  open_choices open;
  memory_limits limits;
  cost_model costs;
  /// Options to choose in addition to the settings that `open` names. If there are any, choose() searches even if the
  /// step with the given `options` does not exceed the memory limits.
  std::vector<knob> knobs{};
  std::function<core::result<void>()> go_on{};  ///< called before each plan that is tried; an error ends the search
};

/// Returns the traffic of the swapped data `what` in a plan, or of all swapped data, without the swaps with which a
/// clipped step repeats updates.
swap_traffic traffic_of(const rank_plan& p, std::optional<swapped> what = {});

/// Chooses the open settings. If nothing is swapped, there are no knobs and a step with the given options does not
/// exceed the memory limits, it changes nothing.
/// Otherwise the search starts at the smallest sizes and makes, one after the other, the change that saves most of the
/// predicted step per byte (a larger sub-group or bucket, one more window or states that stay in memory), until no
/// change saves a five-hundredth of the step. The remaining memory then keeps more states, first the kind whose
/// resident byte saves most time on the disk. If even the smallest sizes do not fit, they are the result, with `fits`
/// false. Errors are the generator's. Deterministic: all ranks choose alike.
core::result<fitted> choose(const fit_request& request);

/// Returns the unit with the most parameters, all of which must be gathered when the unit is used.
const core::unit_info& largest_unit(const core::model_table& table);
/// Returns the number of elements of the unit's parameters.
uint64_t elements_of(const core::model_table& table, const core::unit_info& unit);

/// Largest number of ranks with which the search generates the plans of all ranks to predict memory and time. In a
/// larger job it generates the plan of the first rank of each pipeline coordinate, and the plans of all ranks only for
/// the result.
inline constexpr uint32_t fit_sample_ranks_max = 4;
/// Largest number of ranks with which the plans of all ranks are generated for the result of the search. In a larger
/// job one plan is generated for each class of ranks with equal plans.
inline constexpr uint32_t fit_ranks_max = 64;
/// Approximate maximum of the numbers of sub-groups of a rank and of buckets of a step: the search starts with the
/// sizes that this maximum implies, and goes on to larger ones.
inline constexpr uint64_t fit_pieces_max = 256;
/// Smallest size, in elements, of a sub-group or a bucket that the search tries, unless there are fewer elements in
/// all.
inline constexpr uint64_t fit_piece_min = 4096;

}  // namespace troupe::plan
