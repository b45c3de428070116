// Finds the keys of checkpoint.load that a command line sets. Leaves their effect to checkpoint_start.hpp.
#pragma once

#include <string>
#include <vector>

#include "config/load.hpp"

namespace troupe::apps {

/// Returns the keys of checkpoint.load, without that prefix, that `--set` or a flag has set: for
/// start_wishes::keys_by_hand.
std::vector<std::string> load_keys_by_hand(const config::loaded& c);

}  // namespace troupe::apps
