// This machine's rates, measured at the start of a run with swapped states whose configuration leaves sizes open: the
// plan chooses by them. The choice is written into the run's folder, so that it can be used again.
#pragma once

#include <functional>
#include <string>

#include "config/sections/job_config.hpp"
#include "plan/choose/cost.hpp"

namespace troupe::job {

/// Bytes that are written to and read from the swap folder's disk to measure it.
inline constexpr uint64_t probe_bytes = uint64_t{32} << 20;

/// Whether a run whose states swap depends on rates: the configuration leaves a size to the plan's choice.
bool needs_measured_costs(const config::job_config& config);

/// Floating point operations per second of matrix products on one core, or on the device that the job names, in its
/// parameters' type; 0 where they cannot be measured.
using product_meter = std::function<double(const config::job_config&)>;

/// The defaults, with the rate of matrix products by `products` and, where the folder allows it, the rates of the disk.
/// About 0.1 s. A rate that could not be measured keeps its default, and `warn` is called.
plan::cost_model measured_costs(const config::job_config& config, const product_meter& products,
                                const std::function<void(const std::string&)>& warn);

/// The plan's choice for this run and the rates it used (if any), as YAML that makes the same choice when it is pasted.
std::string chosen_tiers(const config::job_config& config, const plan::plan_options& options,
                         const plan::cost_model& costs);

}  // namespace troupe::job
