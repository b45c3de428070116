// Owns the passes that change a step by its options: which parameters are gathered ahead or for the whole step, which
// activations are recomputed, how large buckets are. Defines their names, the options that each may change, and the
// choice by predicted time under a limit of memory. The search is in size_search.hpp; times are those of the cost
// model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "plan/choose/compiled_step.hpp"
#include "plan/choose/size_search.hpp"

namespace troupe::plan {

/// One of Troupe's passes over options. A pass does not change the computed values, so that losses and weights keep
/// their bits, unless `keeps_bits` is false.
struct option_pass {
  std::string_view name;
  std::string_view does;  ///< effect of the pass in a few words
  /// False: the pass changes the number of rows of matrix products, and a library may round these differently. Such a
  /// pass acts only if it is named, never in `auto`.
  bool keeps_bits = true;
};

/// Returns the table of all option passes, in the order in which reports list them.
std::span<const option_pass> option_passes();

/// The input of a choice of passes: the step, and the passes that may change it.
struct compile_request {
  std::shared_ptr<const core::model_table> table;
  plan_options base;                ///< options of the step without passes
  std::vector<std::string> passes;  ///< names of the requested passes, among `option_passes`
  memory_limits limits;             ///< memory limits of one rank
  bool places_states = false;       ///< true before a run, when the states have no memory or file yet
  cost_model costs;
  std::function<core::result<void>()> go_on{};  ///< called before each plan that is tried; an error ends the search
};

/// Returns the settings with the shortest predicted step that meet the limits. If the base meets them and no setting is
/// faster by a five-hundredth, returns the base. Errors: an unknown name of a pass (bad_input), and the generator's
/// errors. Deterministic: all ranks choose alike.
core::result<compiled_step> compile(const compile_request& request);

}  // namespace troupe::plan
