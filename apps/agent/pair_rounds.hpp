// Chooses which pairs of hosts are measured at the same time: within a round each host is in at most one pair, so that
// measurements do not disturb each other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace troupe::apps {

using host_pair = std::pair<uint32_t, uint32_t>;

/// Returns rounds that together contain each pair once. There are as many rounds as hosts, or one less if their number
/// is even.
inline std::vector<std::vector<host_pair>> pair_rounds(std::vector<uint32_t> hosts) {
  constexpr uint32_t rests = UINT32_MAX;
  if (hosts.size() % 2 == 1) hosts.push_back(rests);
  const size_t n = hosts.size();
  std::vector<std::vector<host_pair>> out;
  for (size_t round = 0; round + 1 < n; ++round) {
    auto& pairs = out.emplace_back();
    for (size_t i = 0; i < n / 2; ++i)
      if (hosts[i] != rests && hosts[n - 1 - i] != rests) pairs.emplace_back(hosts[i], hosts[n - 1 - i]);
    // Makes the next round of a round-robin tournament: the first host keeps its position, and all other hosts move by
    // one.
    const uint32_t last = hosts.back();
    hosts.pop_back();
    hosts.insert(hosts.begin() + 1, last);
  }
  return out;
}

}  // namespace troupe::apps
