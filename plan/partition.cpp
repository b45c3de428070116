#include "plan/partition.hpp"

#include <algorithm>
#include <numeric>

#include "core/math.hpp"

namespace troupe::plan {

uint64_t partition::elements_of(uint32_t rank) const {
  uint64_t n = 0;
  for (const auto& p : slices) n += p[rank].count;
  return n;
}

partition make_partition(const core::model_table& table, uint32_t ranks, bool round_robin) {
  partition out{ranks, {}};
  std::vector<uint64_t> owned(ranks, 0);
  std::vector<uint32_t> order(ranks);
  uint32_t turn = 0;
  for (const auto& p : table.parameters) {
    const uint64_t n = p.numel(), blocks = core::div_up(n, core::partition_grain);
    std::vector<uint64_t> share(ranks, blocks / ranks);
    std::iota(order.begin(), order.end(), 0U);
    if (round_robin)
      std::rotate(order.begin(), order.begin() + turn, order.end());
    else
      std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return owned[a] < owned[b]; });
    const auto extra = static_cast<uint32_t>(blocks % ranks);
    for (uint32_t i = 0; i < extra; ++i) ++share[order[i]];
    turn = (turn + extra) % ranks;

    std::vector<slice> cuts(ranks);
    uint64_t block = 0;
    for (uint32_t r = 0; r < ranks; ++r) {
      const uint64_t first = std::min(n, block * core::partition_grain);
      block += share[r];
      const uint64_t end = std::min(n, block * core::partition_grain);
      cuts[r] = {first, end - first};
      owned[r] += end - first;
    }
    out.slices.push_back(std::move(cuts));
  }
  return out;
}

}  // namespace troupe::plan
