// Computes the bytes that cross the network in a step of a job on several machines, from its plan and the rules of
// fabric/wire, before anything runs.
#pragma once

#include <vector>

#include "config/sections/job_config.hpp"
#include "job/step/step_plans.hpp"

namespace troupe::job {

struct machine_traffic {                ///< bytes that cross the network in one step
  std::vector<uint64_t> entered_bytes;  ///< [machine]: bytes received by collectives, sends and exchanges
  std::vector<uint64_t> kept_bytes;     ///< [machine]: bytes received to keep a copy of the previous machine's save
};

/// Computes the traffic of a step, without headers, certificates and heartbeats. `saving`: the plans of a step with a
/// save; null: no copies. Returns every error of step_plans::of, and mismatch if the members of a communicator are not
/// neighbours on their machines.
core::result<machine_traffic> traffic_of(const config::job_config& config, const step_plans& plans,
                                         const step_plans* saving);

}  // namespace troupe::job
