// Finds the usual speeds between the hosts of a job, and the hosts and pairs that are slower or later. Pure.
#pragma once

#include <vector>

#include "apps/machine/cluster_facts.hpp"

namespace troupe::apps {

/// Limits of a slow or late host or pair. A host is reported if its best pair, to or from it, has less than
/// `slow_share` of the usual rate, or a delay of more than `late_times` the usual one and `late_s` above it; so is a
/// pair of hosts that are not reported.
inline constexpr double slow_share = 0.5, late_times = 4, late_s = 200e-6;

struct pair_speeds {
  explicit pair_speeds(const examined_cluster& all);

  /// [host]: best value of its pairs; 0 or infinity if not measured
  std::vector<double> out, in, delay;
  double usual_out = 0, usual_in = 0, usual_delay = 0;   ///< medians of `out`, `in` and `delay` over all hosts
  std::vector<bool> sends_slowly, takes_slowly, is_odd;  ///< [host]; is_odd: sends slowly, takes slowly or is late

  /// True if the pair is slow or late compared with the other pairs of its two hosts, which are not odd.
  [[nodiscard]] bool is_poor(const examined_pair& p) const;
};

/// Returns the numbers of at most `most` pairs that make a host odd or are poor themselves, to be measured again: a
/// host or the network may have been busy for a moment.
std::vector<size_t> doubtful_pairs(const examined_cluster& all, size_t most);

}  // namespace troupe::apps
