// Which ranks of a term live in which process. Plain values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cluster/messages.hpp"

namespace troupe::actors {

struct term_members {
  uint32_t place = 0;                ///< this process
  std::vector<cluster::seat> seats;  ///< in the order of ranks; the first leads

  [[nodiscard]] bool leads() const { return seats.front().place == place; }
  [[nodiscard]] uint32_t place_of(uint32_t rank) const {
    return std::ranges::find_if(seats, [&](const auto& s) { return rank - s.first < s.count; })->place;
  }
  [[nodiscard]] bool is_here(uint32_t rank) const { return place_of(rank) == place; }
  /// [rank]
  [[nodiscard]] std::vector<bool> here() const {
    std::vector<bool> out;
    for (const auto& s : seats) out.insert(out.end(), s.count, s.place == place);
    return out;
  }
};

}  // namespace troupe::actors
