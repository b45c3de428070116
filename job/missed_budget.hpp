// Finds which of the configured memory budgets the step plan of a job exceeds, for the error that refuses the job.
#pragma once

#include <string_view>

#include "config/sections/job_config.hpp"
#include "plan/choose/size_search.hpp"

namespace troupe::job {

/// Configuration key of the limit of all memory, with which the passes of `compile` are chosen.
inline constexpr std::string_view passes_budget = "compile.memory_budget";
/// Configuration key of the limit of the device's memory.
inline constexpr std::string_view device_budget = "cuda.memory_limit";

struct missed_budget {
  std::string_view key;
  /// Bytes that the plans of all ranks require, and bytes that the configuration permits.
  uint64_t needed = 0, given = 0;
};

/// Returns the first budget that `x` exceeds: the budget of all memory, then the budget of device memory; if it exceeds
/// neither, the budget of states in host memory.
missed_budget missed_budget_of(const config::job_config& c, const plan::memory_limits& limits, const plan::fitted& x);

}  // namespace troupe::job
