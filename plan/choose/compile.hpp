// Passes that change a step by its options: what is gathered ahead or stays whole, what is computed again, how large
// buckets are. Owns their names, what each may change, and the choice by predicted time under a limit of memory; the
// search is fit.hpp's, the times are a model's or measured (measured_prices.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "plan/choose/fit.hpp"

namespace troupe::plan {

/// One of ours. None changes what is computed, so losses and weights keep their bits, or it says that they may not.
struct option_pass {
  std::string_view name;
  std::string_view does;  ///< in a few words
  /// False: products are over other numbers of rows, which a library may round otherwise. Then it acts only where it is
  /// named, never in `auto`.
  bool keeps_bits = true;
};

/// All of them, in the order in which they are shown.
std::span<const option_pass> option_passes();

/// A step, and what may be done to it.
struct compile_request {
  std::shared_ptr<const core::model_table> table;
  plan_options base;                ///< the step without passes
  std::vector<std::string> passes;  ///< names among `option_passes`
  memory_limits limits;             ///< of a rank
  bool places_states = false;       ///< before a run: states have no place yet
  cost_model costs;
  instruction_price price{};                    ///< measured; empty: `costs`' own
  std::function<core::result<void>()> go_on{};  ///< asked before each plan that is tried; an error ends the search
};

/// What one pass did to the step: the predicted step and bytes without it, less those with it.
struct pass_gain {
  std::string pass;
  std::string change;  ///< in a few words; empty: it left all as it is
  double saved_s = 0;
  int64_t saved_bytes = 0;  ///< of the rank that needs most
};

/// What became of it.
struct compiled_step {
  fitted chosen;  ///< `fits` false: the least that there is
  fitted base;
  std::vector<pass_gain> gains;  ///< in the order of `option_passes`
};

/// The settings with the shortest predicted step that meet the limits. If the base does and nothing is faster by a
/// five-hundredth, it stays. Errors: a name that is none (bad_input), the generator's. Deterministic: all ranks choose
/// alike.
core::result<compiled_step> compile(const compile_request& request);

}  // namespace troupe::plan
