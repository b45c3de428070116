// The keys of checkpoint.load that a command line gives. Leaves what they do to checkpoint_start.hpp.
#pragma once

#include <string>
#include <vector>

#include "config/load.hpp"

namespace troupe::apps {

/// Keys of checkpoint.load, without that prefix, that `--set` or a flag has given: for start_wishes::keys_by_hand.
std::vector<std::string> load_keys_by_hand(const config::loaded& c);

}  // namespace troupe::apps
