// Which names of the `compile` section are passes over a host's units and not over the plan, and which are for a whole
// run.
#pragma once

#include <string>

namespace troupe::config {

/// Whether it is a pass over a host's units (models/host/unit_pass.hpp): chosen when a session opens, as units do not
/// change between steps.
bool changes_units(const std::string& pass);

/// Whether it is a pass over the plan that chooses where states lie: when a session opens, as they do not move between
/// steps.
bool places_states(const std::string& pass);

}  // namespace troupe::config
