// Which names of the `compile` section are passes over a host's units and not over the plan.
#pragma once

#include <string>

namespace troupe::config {

/// Whether it is a pass over a host's units (models/host/unit_pass.hpp): chosen when a session opens, as units do not
/// change between steps.
bool changes_units(const std::string& pass);

}  // namespace troupe::config
