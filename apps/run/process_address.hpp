// On which address a process takes bytes from those of other machines, as `cluster.hosts[].bind` and
// `cluster.interface` say.
#pragma once

#include "config/sections/cluster_config.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// Of a process that an agent has started: leaves the address where the session looks for it. Where no key says one it
/// is what the agent has found. Errors: bad_input, for an interface that has none.
core::result<void> take_own_address(const config::cluster_section& c);

}  // namespace troupe::apps
