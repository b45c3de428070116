// What this machine does in a second, measured when a run with swapped states begins whose configuration leaves
// something open: by it the plan chooses. The choice is written into the run's folder, so that it can be taken again.
#pragma once

#include <functional>
#include <string>

#include "config/job_config.hpp"
#include "plan/choose/cost.hpp"

namespace troupe::job {

/// Bytes that the swap folder's disk writes and reads to be measured.
inline constexpr uint64_t probe_bytes = uint64_t{32} << 20;

/// Whether a run whose states swap depends on any rate: the file leaves a size to the plan's choice.
bool needs_measured_costs(const config::job_config& config);

/// Floating point operations per second of matrix products on one core, in a type; 0 where they cannot be measured.
using product_meter = std::function<double(core::dtype)>;

/// The defaults, with the rate of matrix products by `products` and, where the folder allows it, those of the disk.
/// About 0.1 s. What could not be measured keeps its default and is told to `warn`.
plan::cost_model measured_costs(const config::job_config& config, const product_meter& products,
                                const std::function<void(const std::string&)>& warn);

/// What the plan chose for this run and by which rates (if by any), as YAML that takes the same choice when it is
/// pasted.
std::string chosen_tiers(const config::job_config& config, const plan::plan_options& options,
                         const plan::cost_model& costs);

}  // namespace troupe::job
