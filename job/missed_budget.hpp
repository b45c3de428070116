// Finds the memory budget that a chosen step exceeds, for the error that refuses the step.
#pragma once

#include <string_view>

#include "config/sections/job_config.hpp"
#include "plan/choose/fit.hpp"

namespace troupe::job {

/// Key of the budget that passes have for all memory.
inline constexpr std::string_view passes_budget = "compile.memory_budget";

struct missed_budget {
  std::string_view key;
  uint64_t needed = 0, given = 0;  ///< required and permitted bytes of all ranks
};

/// Returns the first budget that `x` exceeds: first that of all memory, then that of the device; if it exceeds neither,
/// that of the states on the host.
missed_budget missed_budget_of(const config::job_config& c, const plan::memory_limits& limits, const plan::fitted& x);

}  // namespace troupe::job
