#include "apps/simulate/memory_peaks.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "plan/memory_places.hpp"

namespace troupe::apps {
namespace {

/// [rank]: the bytes that are taken (above 0) or given back at a time.
using byte_changes = std::map<uint32_t, std::vector<std::pair<int64_t, int64_t>>>;

void find_peak(memory_peak& out, byte_changes& all) {
  for (auto& [rank, changes] : all) {
    std::ranges::sort(changes);  // at the same time, bytes are given back before others are taken
    int64_t now = 0;
    for (const auto& [at_ns, more] : changes) {
      now += more;
      if (now <= static_cast<int64_t>(out.peak_bytes)) continue;
      out.peak_bytes = static_cast<uint64_t>(now);
      out.rank = rank;
      out.at_ns = at_ns;
    }
  }
}

}  // namespace

std::vector<memory_peak> memory_peaks_of(const sim::history& h, const std::vector<actors::shared_rank_plans>& plans) {
  const size_t num_owners = h.owners.size();
  std::vector<memory_peak> all(num_owners + 1);
  std::vector<byte_changes> changes(num_owners + 1);  // [owner]; the last entry is for all owners
  for (const sim::holding& x : h.memory)
    for (const size_t owner : {static_cast<size_t>(x.owner), num_owners}) {
      auto& list = changes[owner][x.rank];
      list.emplace_back(x.from_ns, static_cast<int64_t>(x.bytes));
      list.emplace_back(x.to_ns, -static_cast<int64_t>(x.bytes));
    }
  for (size_t k = 0; k <= num_owners; ++k) {
    all[k].owner = k < num_owners ? h.owners[k] : "in all";
    find_peak(all[k], changes[k]);
  }
  for (const auto& which : plans)
    for (const auto& p : which) {
      const auto owners = plan::owners_of(p->memory, p->options().tiers);
      for (size_t k = 0; k < std::min(owners.size(), num_owners); ++k)
        all[k].planned_bytes = std::max(all[k].planned_bytes, owners[k].bytes);
      all[num_owners].planned_bytes = std::max(all[num_owners].planned_bytes, p->memory.total());
    }
  std::erase_if(all, [](const memory_peak& x) { return x.peak_bytes == 0 && x.planned_bytes == 0; });
  return all;
}

}  // namespace troupe::apps
