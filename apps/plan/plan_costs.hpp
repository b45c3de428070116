// Chooses the costs that `troupe plan`, `troupe simulate` and `troupe train` assume: constants that `troupe calibrate`
// has kept of this machine, rates that are measured now, or usual ones; and the disk rates of its arguments.
#pragma once

#include <optional>
#include <string>

#include "apps/plan/rate_arguments.hpp"
#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "job/kept_costs.hpp"
#include "job/measured_costs.hpp"
#include "plan/choose/cost.hpp"

namespace troupe::apps {

struct chosen_costs {
  plan::cost_model costs;
  std::string source;  ///< where they come from, as a clause: "usual rates of a CPU (troupe calibrate ...)"
  /// Kept constants with the spread of their measurements; nullopt: other rates.
  std::optional<job::costs_of_type> spread = std::nullopt;
};

/// Returns the identity of this machine and program, by which measured constants are kept.
job::machine_identity own_machine();

/// Returns the constants that are kept of this machine for a job, from the user's cache; nullopt: there are none, or
/// the job is on a device. Refused: a file that cannot be read.
core::result<std::optional<job::model_of_kept>> kept_costs_of(const config::job_config& c);

/// Returns the costs by these constants, or else by usual rates.
chosen_costs costs_by(const std::optional<job::model_of_kept>& kept, const config::job_config& c);

/// Returns the costs of a job. Disk rates in the arguments replace those of the cost model. Refused: a file of kept
/// constants that cannot be read.
core::result<chosen_costs> costs_of(const config::job_config& c, const rate_arguments& a,
                                    const job::product_meter& products);

}  // namespace troupe::apps
