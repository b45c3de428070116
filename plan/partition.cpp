#include "plan/partition.hpp"

#include <numeric>

namespace troupe::plan {
uint64_t partition::elements_of(uint32_t rank) const {
  uint64_t n = 0;
  for (uint32_t q = 0; q < cuts_.size(); ++q) n += of(q, rank).count;
  return n;
}

partition make_partition(const core::model_table& table, uint32_t ranks, uneven_blocks uneven) {
  partition out;
  out.ranks_ = ranks;
  std::vector<uint64_t> owned(ranks, 0);
  std::vector<uint32_t> order(ranks);
  uint32_t turn = 0;
  for (const auto& p : table.parameters) {
    if (p.is_copy()) {
      out.cuts_.push_back(out.cuts_[*p.copy_of]);
      continue;
    }
    const uint64_t blocks = core::div_up(p.numel(), core::partition_grain);
    const auto extra = static_cast<uint32_t>(blocks % ranks);
    partition::cut c{p.numel(), blocks / ranks, {}};
    if (extra > 0) {
      std::iota(order.begin(), order.end(), 0U);
      const auto least_first = [&](uint32_t a, uint32_t b) {
        return owned[a] != owned[b] ? owned[a] < owned[b] : a < b;
      };
      if (uneven == uneven_blocks::in_turn)
        std::rotate(order.begin(), order.begin() + turn, order.end());
      else
        std::nth_element(order.begin(), order.begin() + extra, order.end(), least_first);
      c.more_before.assign(ranks + 1, 0);
      for (uint32_t i = 0; i < extra; ++i) c.more_before[order[i] + 1] = 1;
      std::partial_sum(c.more_before.begin(), c.more_before.end(), c.more_before.begin());
    }
    turn = (turn + extra) % ranks;
    out.cuts_.push_back(std::move(c));
    for (uint32_t r = 0; r < ranks; ++r) owned[r] += out.of(static_cast<uint32_t>(out.cuts_.size() - 1), r).count;
  }
  return out;
}

}  // namespace troupe::plan
