// Classifies pass names of the `compile` section: passes that change a host program's units instead of the plan, and
// passes that choose where states are stored and therefore stay the same for a whole run.
#pragma once

#include <string>

namespace troupe::config {

/// True if `pass` is a pass over a host's units (models/host/unit_pass.hpp), which is chosen when a session opens,
/// because units do not change between steps.
bool changes_units(const std::string& pass);

/// True if `pass` is a pass over the plan that chooses where states are stored, which happens when a session opens,
/// because states do not move between steps.
bool places_states(const std::string& pass);

}  // namespace troupe::config
