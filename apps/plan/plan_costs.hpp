// Chooses the costs that `troupe plan` and `troupe simulate` assume: default rates, or rates that are measured on this
// machine, and the disk rates of its arguments.
#pragma once

#include <cstdio>
#include <string>

#include "apps/base/error_line.hpp"
#include "apps/plan/rate_arguments.hpp"
#include "config/sections/job_config.hpp"
#include "job/blueprint.hpp"
#include "job/measured_costs.hpp"
#include "plan/choose/cost.hpp"

namespace troupe::apps {

/// Returns the rates of this machine, measured or usual; disk rates in the arguments replace those of the cost model.
inline plan::cost_model costs_of(const config::job_config& c, const rate_arguments& a,
                                 const job::product_meter& products) {
  auto out = a.measure ? job::measured_costs(c, products, [](const std::string& line) { print_error_line(line); })
                       : job::usual_costs(c);
  if (a.disk_read_gb_per_s > 0) out.disk_read_bytes_per_s = a.disk_read_gb_per_s * 1e9;
  if (a.disk_write_gb_per_s > 0) out.disk_bytes_per_s = a.disk_write_gb_per_s * 1e9;
  return out;
}

}  // namespace troupe::apps
