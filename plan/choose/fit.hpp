// Chooses what a configuration leaves open, so that a rank's states fit its memory: sizes of sub-groups, buckets and
// windows, what is gathered ahead, what stays in memory. Owns the search and its order; the memory and time of a choice
// come from the generator and the cost model, never computed here.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "plan/choose/cost.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Settings that the configuration leaves open and that may be chosen; all others stay as the options have them.
struct open_choices {
  bool sub_group = false;    ///< plan_options::updates.sub_group; matters where states are swapped
  bool bucket = false;       ///< plan_options::gradients.reduce_bucket, never above its given value
  bool state_slots = false;  ///< with reading ahead and writing behind
  bool parameter_slots = false;
  bool gradient_slots = false;
  bool gathering = false;       ///< prefetch, reuse and persistence at stage 3, never above their given values
  bool swap_gradients = false;  ///< whether gradients are swapped
  bool resident_parameters = false;
  bool ratio = false;  ///< share of sub-groups that leave memory
};

/// Bytes of one rank; 0: no limit.
struct memory_limits {
  uint64_t states = 0;  ///< of budgeted_bytes (plan/memory_places.hpp): what `cluster.host_memory_budget` covers
  uint64_t total = 0;   ///< of memory_table::total(): activations too
  uint64_t device = 0;  ///< of device_bytes: activations too
  [[nodiscard]] bool any() const { return states > 0 || total > 0 || device > 0; }
};

/// One more thing that may be chosen: its settings from the one that needs least memory on.
struct knob {
  std::vector<std::function<void(plan_options&)>> settings;
  size_t look = 2;  ///< how many settings further are tried at a time
  /// The first setting that hides copies behind compute, and the cheapest way to do so, which is taken instead of an
  /// earlier setting for an equal predicted step. Null: the knob has nothing to do with that.
  size_t hiding_from = 0;
  std::function<void(plan_options&)> hiding{};
};

/// A step, and what is open of it.
struct fit_request {
  std::shared_ptr<const core::model_table> table;
  plan_options options;  ///< of the step that trains; its own budget is not looked at
  open_choices open;
  memory_limits limits;
  cost_model costs;
  std::vector<knob> knobs{};  ///< beside `open`; with any, the search begins although the options fit as they are
  instruction_price price{};  ///< instead of what `costs` says; `costs` has the latency
  std::function<core::result<void>()> go_on{};  ///< asked before each plan that is tried; an error ends the search
};

/// Bytes between memory and files in one step of a rank.
struct swap_traffic {
  uint64_t read = 0, written = 0;
};
/// Of all pieces; of one kind. Without those of updates that are done again.
swap_traffic traffic_of(const rank_plan& p);
swap_traffic traffic_of(const rank_plan& p, swapped what);

/// Options with everything chosen, and what a step with them needs.
struct fitted {
  plan_options options;
  memory_table memory;   ///< of the rank that needs most
  uint32_t rank = 0;     ///< the one that needs most
  swap_traffic traffic;  ///< of that rank
  double step_s = 0;     ///< predicted
  bool fits = false;
  uint64_t missing = 0;  ///< bytes, where it does not fit
};

/// If nothing is swapped, there are no knobs and the options fit as they are, they stay. Otherwise the search starts at
/// the smallest sizes and makes, one after the other, the change that saves most of the predicted step per byte (a
/// larger piece, one more window or states that stay in memory), until no change saves a five-hundredth of the step.
/// Memory that is left then keeps more states, first the kind whose resident byte saves most time on the disk. If even
/// the smallest sizes do not fit, they are the answer, with `fits` false. Errors are the generator's. Deterministic:
/// all ranks choose alike.
core::result<fitted> choose(const fit_request& request);

/// The unit with the most parameters: they must be whole when it is used.
const core::unit_info& largest_unit(const core::model_table& table);
uint64_t elements_of(const core::model_table& table, const core::unit_info& unit);

/// Plans beyond this number of ranks are judged by the first rank's of each part of a pipeline while searching, and by
/// all ranks' at the end.
inline constexpr uint32_t fit_sample_ranks_max = 4;
/// Beyond this number of ranks, one of each class is judged at the end.
inline constexpr uint32_t fit_ranks_max = 64;
/// Sub-groups of a rank, buckets of a step: the search starts with about as many at most.
inline constexpr uint64_t fit_pieces_max = 256;
/// Elements: the search makes no piece smaller, unless there are fewer in all.
inline constexpr uint64_t fit_piece_min = 4096;

}  // namespace troupe::plan
