// Finds the usual bandwidths and delays between the hosts of a job, and the hosts and pairs with less bandwidth or more
// delay. Pure.
#pragma once

#include <vector>

#include "apps/machine/cluster_facts.hpp"

namespace troupe::apps {

/// Limits beyond which a host is reported: its best rate, to or from it, is less than `slow_share` of the usual rate,
/// or its smallest delay is more than `late_times` the usual delay and more than `late_s` (seconds) above it. A pair of
/// hosts that are not reported is compared with the best values of its two hosts.
inline constexpr double slow_share = 0.5, late_times = 4, late_s = 200e-6;

struct pair_speeds {
  explicit pair_speeds(const examined_cluster& all);

  /// Best send rate, receive rate (bytes per second) and delay (seconds) of each host, by host number; 0, or infinity
  /// for the delay, if not measured
  std::vector<double> out, in, delay;
  double usual_out = 0, usual_in = 0, usual_delay = 0;  ///< medians of `out`, `in` and `delay` over all hosts
  /// Verdicts by host number; is_odd: the host sends slowly, receives slowly or is late
  std::vector<bool> sends_slowly, takes_slowly, is_odd;

  /// True if the pair has much less bandwidth or more delay than the best measurements of its two hosts. Says nothing
  /// about the link between them if `is_odd` is true for one of the hosts.
  [[nodiscard]] bool is_poor(const examined_pair& p) const;
};

/// Returns the indices of at most `most` pairs that contain an odd host or are poor themselves. They should be measured
/// again, because a host or the network may have been busy for a moment.
std::vector<size_t> doubtful_pairs(const examined_cluster& all, size_t most);

}  // namespace troupe::apps
