// Defines the results of a choice of settings (size_search.hpp) and of passes over them (compile.hpp). Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/options.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Bytes that one rank moves between memory and files in a step.
struct swap_traffic {
  uint64_t read = 0, written = 0;
};

/// The result of choose(): options with every choice made, and the memory and time of a step with these options.
struct fitted {
  plan_options options;
  memory_table memory;   ///< memory of the rank that needs most memory
  uint32_t rank = 0;     ///< number of the rank that needs most memory
  swap_traffic traffic;  ///< traffic of the rank that needs most memory
  double step_s = 0;     ///< predicted seconds of a step
  bool fits = false;
  uint64_t missing = 0;  ///< bytes by which the memory exceeds the limits; 0 if `fits`
};

/// The effect of one pass on the step: predicted time and bytes without the pass, minus time and bytes with it.
struct pass_gain {
  std::string pass;
  std::string change;  ///< change that the pass made, in a few words; empty: the pass changed nothing
  double saved_s = 0;
  int64_t saved_bytes = 0;  ///< bytes that the pass saves on the rank that needs most memory
};

/// The result of a choice of passes: the step's options, memory and predicted time, and the gain of each pass.
struct compiled_step {
  fitted chosen;  ///< the chosen step; if `fits` is false, the step that needs least memory
  fitted base;
  std::vector<pass_gain> gains;  ///< gain of each requested pass, in the order of `option_passes`
};

}  // namespace troupe::plan
