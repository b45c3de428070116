// Formats the network traffic of a job on several machines for `troupe plan`: the bytes that enter each machine in a
// step.
#pragma once

#include <string>

#include "core/error.hpp"
#include "job/blueprint.hpp"

namespace troupe::apps {

/// Returns one line that lists the machines; empty with fewer than two machines. Errors: those of plans.
core::result<std::string> machines_summary(const job::blueprint& b);

}  // namespace troupe::apps
