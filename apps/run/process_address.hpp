// Finds the address on which a process receives bytes from other machines, from `cluster.hosts[].bind` and
// `cluster.interface`.
#pragma once

#include "config/sections/cluster_config.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// In a process that an agent has started, stores the address of `bind` or of the interface in the environment variable
/// cluster::address_variable, which the session reads. If neither key is set, the address that the agent has found
/// remains. Errors: bad_input for an interface without an address.
core::result<void> take_own_address(const config::cluster_section& c);

}  // namespace troupe::apps
