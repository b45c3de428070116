// Bytes that cross the network in a step of a job on several hosts, as its plan and the rules of fabric/wire say them
// before anything runs.
#pragma once

#include <vector>

#include "config/sections/job_config.hpp"
#include "job/step_plans.hpp"

namespace troupe::job {

struct machine_traffic {                ///< of one step
  std::vector<uint64_t> entered_bytes;  ///< [machine] of collectives, sends and exchanges
  std::vector<uint64_t> kept_bytes;     ///< [machine] of a copy of the save in memory of the machine before
};

/// Headers, certificates and heartbeats do not count. `saving`: the plans of a step with a save; none: no copies.
/// Errors: step_plans::of's; mismatch, where a communicator's members are not neighbours on their machines.
core::result<machine_traffic> traffic_of(const config::job_config& config, const step_plans& plans,
                                         const step_plans* saving);

}  // namespace troupe::job
