#include "plan/show/swap_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/text.hpp"
#include "plan/choose/size_search.hpp"
#include "plan/memory_places.hpp"
#include "plan/show/render.hpp"

namespace troupe::plan {
namespace {

struct interval {
  double from, to;
};

/// Returns the intervals in which one of a rank's lanes worked, in order and without overlaps.
std::vector<interval> busy(const timeline& t, uint32_t rank, std::initializer_list<lane> lanes) {
  std::vector<interval> all;
  for (const lane l : lanes)
    for (uint32_t id : t.plans[rank]->lanes[static_cast<size_t>(l)]) {
      const auto& x = t.ranks[rank].instructions[id];
      if (x.end_s > x.moving_s) all.push_back({x.moving_s, x.end_s});
    }
  std::sort(all.begin(), all.end(), [](const interval& a, const interval& b) { return a.from < b.from; });
  std::vector<interval> out;
  for (const auto& x : all) {
    if (!out.empty() && x.from <= out.back().to)
      out.back().to = std::max(out.back().to, x.to);
    else
      out.push_back(x);
  }
  return out;
}

std::string milliseconds(double s) { return core::text_of("%.1f ms", 1e3 * s); }

}  // namespace

disk_times disk_times_of(const timeline& t, uint32_t rank) {
  disk_times out;
  const auto work = busy(t, rank, {lane::compute, lane::shard});
  size_t w = 0;
  for (const auto& x : busy(t, rank, {lane::io})) {
    out.busy_s += x.to - x.from;
    while (w < work.size() && work[w].to <= x.from) ++w;
    for (size_t i = w; i < work.size() && work[i].from < x.to; ++i)
      out.hidden_s += std::min(x.to, work[i].to) - std::max(x.from, work[i].from);
  }
  out.exposed_s = std::max(0.0, out.busy_s - out.hidden_s);
  return out;
}

std::string tiers_as_text(const timeline& t, uint32_t plan) {
  const auto& mine = *t.plans[plan];
  const auto& tiers = mine.options().tiers;
  if (tiers.optimizer == tier::device && tiers.parameters == tier::device && tiers.activations == tier::device &&
      !tiers.swaps())
    return "";
  std::vector<std::vector<std::string>> rows{{"tier", "device", "cpu", "nvme"}};
  for (const auto& p : t.plans) {
    const auto bytes = bytes_by_tier(p->memory, tiers);
    rows.push_back({fmt::format("  rank {}", p->rank), core::human_bytes(bytes[0]), core::human_bytes(bytes[1]),
                    core::human_bytes(bytes[2])});
  }
  std::string out = aligned(rows, {false, true, true, true});
  const auto all = traffic_of(mine);
  if (all.read + all.written == 0) return out;
  rows = {{fmt::format("a step of rank {}", mine.rank), "read", "written"}};
  for (const swapped what : {swapped::states, swapped::gradients, swapped::shards, swapped::activations})
    if (const auto bytes = traffic_of(mine, what); bytes.read + bytes.written > 0)
      rows.push_back(
          {"  " + std::string(name_of(what)), core::human_bytes(bytes.read), core::human_bytes(bytes.written)});
  rows.push_back({"  in all", core::human_bytes(all.read), core::human_bytes(all.written)});
  out += aligned(rows, {false, true, true});
  const auto times = disk_times_of(t, plan);
  return out + "predicted disk time " + milliseconds(times.busy_s) + ": " + milliseconds(times.hidden_s) +
         " hidden behind work, " + milliseconds(times.exposed_s) + " exposed\n";
}

}  // namespace troupe::plan
