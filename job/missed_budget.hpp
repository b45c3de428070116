// Which budget of memory a chosen step does not keep to, for the sentence that refuses it.
#pragma once

#include <string_view>

#include "config/sections/job_config.hpp"
#include "plan/choose/fit.hpp"

namespace troupe::job {

/// The budget that passes have of all memory.
inline constexpr std::string_view passes_budget = "compile.memory_budget";

struct missed_budget {
  std::string_view key;
  uint64_t needed = 0, given = 0;  ///< bytes of all ranks
};

/// The budget that `x` goes beyond, of the limits it was held against: all memory before the device's, and that before
/// the states' on the host, which it is if neither is missed.
missed_budget missed_budget_of(const config::job_config& c, const plan::memory_limits& limits, const plan::fitted& x);

}  // namespace troupe::job
