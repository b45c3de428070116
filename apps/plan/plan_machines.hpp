// What `troupe plan` says of a job on several hosts: the bytes that enter each of them in a step.
#pragma once

#include <string>

#include "core/error.hpp"
#include "job/blueprint.hpp"

namespace troupe::apps {

/// A line for each host; empty where there are none. Errors: those of plans.
core::result<std::string> machines_summary(const job::blueprint& b);

}  // namespace troupe::apps
