// What is usual between the hosts of a job, and which of them and of their pairs are slow or late beside that. Pure.
#pragma once

#include <vector>

#include "apps/machine/cluster_facts.hpp"

namespace troupe::apps {

/// A host whose best pair, to or from it, is slower than this share of what is usual, or later than so many times and
/// this much more, is named; so is a pair of hosts that are not.
inline constexpr double slow_share = 0.5, late_times = 4, late_s = 200e-6;

struct pair_speeds {
  explicit pair_speeds(const examined_cluster& all);

  std::vector<double> out, in, delay;                    ///< [host]: its best; 0 and infinity where none was measured
  double usual_out = 0, usual_in = 0, usual_delay = 0;   ///< the medians of these
  std::vector<bool> sends_slowly, takes_slowly, is_odd;  ///< [host]; odd: one of these, or late

  /// Of two hosts that are not odd.
  [[nodiscard]] bool is_poor(const examined_pair& p) const;
};

/// Numbers of the pairs that make a host odd or are poor themselves, at most `most`: where a host or the network was
/// busy for a moment, another look shows it.
std::vector<size_t> doubtful_pairs(const examined_cluster& all, size_t most);

}  // namespace troupe::apps
