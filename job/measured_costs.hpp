// Owns by which costs a run chooses what its configuration leaves open: constants that are kept of this machine, or
// usual rates; rates that are missing are measured at the start of a run that swaps states and leaves sizes open. The
// choice is written into the run's folder, so that it can be used again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "job/kept_costs.hpp"
#include "plan/choose/cost.hpp"

namespace troupe::job {

/// Bytes that the measurement writes to and reads from the swap folder's disk.
inline constexpr uint64_t probe_bytes = uint64_t{32} << 20;

/// True if a run's choice of sizes depends on rates: its states swap and the configuration leaves a size open.
bool needs_measured_costs(const config::job_config& config);

/// Returns the floating point operations per second of matrix products on one core, or on the job's device, in the type
/// of its parameters; 0 if they cannot be measured.
using product_meter = std::function<double(const config::job_config&)>;

/// Measures the disk of a folder with an unnamed file of probe_bytes, by `passes` passes of which the median counts.
/// Errors: those of storage::throughput_probe, such as a folder that does not exist.
core::result<disk_costs> measured_disk(const std::filesystem::path& folder, uint64_t block_bytes, uint32_t passes = 1);

/// Returns the default costs, with the rate of matrix products measured by `products` and, if the folder allows it, the
/// rates of the disk. Takes about 0.1 s. A rate that cannot be measured keeps its default, and `warn` is called.
plan::cost_model measured_costs(const config::job_config& config, const product_meter& products,
                                const std::function<void(const std::string&)>& warn);

/// Returns the costs by which a run chooses passes, degrees and sizes: `kept`, the constants of this machine, or else
/// the usual rates. If needs_measured_costs() holds, rates that are not kept are measured, as by measured_costs().
plan::cost_model costs_of_run(const config::job_config& config, const std::optional<model_of_kept>& kept,
                              const product_meter& products, const std::function<void(const std::string&)>& warn);

/// Returns the plan's choice of sizes for this run as YAML, with the measured rates in a comment; pasted into the
/// configuration, the YAML makes the same choice again.
std::string chosen_tiers(const config::job_config& config, const plan::plan_options& options,
                         const plan::cost_model& costs);

}  // namespace troupe::job
