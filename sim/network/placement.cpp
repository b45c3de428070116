#include "sim/network/placement.hpp"

#include <fmt/format.h>

namespace troupe::sim {

core::result<std::vector<uint32_t>> place_ranks(const core::mesh& ranks, const network& on, const axis_order& order) {
  core::axis_set given;
  for (const core::axis a : order) {
    if (given.has(a))
      return core::refused(fmt::format("the order of axes: wanted each axis once, got {} twice", core::name_of(a)));
    given = {given, a};
  }
  if (ranks.ranks() > on.devices())
    return core::refused(
        fmt::format("the network: wanted a device for each of {} ranks, got {} devices", ranks.ranks(), on.devices()));
  std::vector<uint32_t> out(ranks.ranks());
  for (uint32_t rank = 0; rank < out.size(); ++rank) {
    uint32_t stride = 1;
    for (const core::axis a : order) {
      out[rank] += ranks.coordinate_of(rank, a) * stride;
      stride *= ranks.degree(a);
    }
  }
  return out;
}

}  // namespace troupe::sim
