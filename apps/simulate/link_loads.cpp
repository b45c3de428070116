#include "apps/simulate/link_loads.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace troupe::apps {

std::vector<link_load> busiest_links(const sim::network& on, const std::vector<double>& link_bytes, size_t most) {
  std::vector<double> together(on.capacities.size());  // [resource]: bytes of all links that share a limit
  for (size_t i = 0; i < on.links.size(); ++i)
    if (const uint32_t limit = on.links[i].limit; limit != sim::network_link::no_limit)
      together[limit] += link_bytes[i];
  std::vector<double> busy_s(on.links.size());
  std::vector<bool> is_limited(on.links.size());
  std::vector<size_t> order;
  for (size_t i = 0; i < on.links.size(); ++i) {
    const auto& link = on.links[i];
    if (!(link_bytes[i] > 0)) continue;
    order.push_back(i);
    busy_s[i] = link_bytes[i] / link.bytes_per_s;
    if (link.limit == sim::network_link::no_limit) continue;
    const double limited_s = together[link.limit] / on.capacities[link.limit];
    is_limited[i] = limited_s > busy_s[i];
    busy_s[i] = std::max(busy_s[i], limited_s);
  }
  const auto picoseconds = [&](size_t i) { return -std::round(busy_s[i] * 1e12); };
  std::ranges::stable_sort(order, {}, picoseconds);
  if (order.size() > most) order.resize(most);
  std::vector<link_load> out;
  for (const size_t i : order)
    out.push_back({.from = on.vertex_names[on.links[i].from],
                   .to = on.vertex_names[on.links[i].to],
                   .bytes = link_bytes[i],
                   .bytes_per_s = on.links[i].bytes_per_s,
                   .busy_s = busy_s[i],
                   .is_limited = is_limited[i]});
  return out;
}

}  // namespace troupe::apps
