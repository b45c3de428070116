// Owns which links of a network a simulated job uses most in a step. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/network/network.hpp"

namespace troupe::apps {

/// One direction of a link, and what passes it in a step.
struct link_load {
  std::string from, to;
  double bytes = 0;
  double bytes_per_s = 0;  ///< rate of the link
  double busy_s = 0;       ///< least time that the bytes need
  /// True: the least time is that of an oversubscribed switch, whose links carry their bytes together.
  bool is_limited = false;
};

/// Returns the links that carry bytes, the one with the longest least time first, at most `most`. Links of equal times
/// (to the picosecond) have the order of the network. `link_bytes`: [link].
std::vector<link_load> busiest_links(const sim::network& on, const std::vector<double>& link_bytes, size_t most);

}  // namespace troupe::apps
