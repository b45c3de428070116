#include "telemetry/figures/io_figures.hpp"

#include <algorithm>
#include <utility>

#include "plan/kinds.hpp"
#include "telemetry/mean.hpp"

namespace troupe::telemetry {
namespace {

bool works(const plan::instruction& x) { return x.lane == plan::lane::compute || x.lane == plan::lane::shard; }

// Computes how long instruction `x` of the compute or shard lane waited only for a swap, because the swap was the last
// of its dependencies to end; stores that time in `out` if it is the longest so far. `before` is the id of the
// instruction before `x` in the lane, or plan::none.
void note_wait(io_figures& out, const rank_spans& rank, const plan::instruction& x, uint32_t before) {
  const auto& p = *rank.plan;
  int64_t others = before == plan::none ? 0 : rank.spans[before].end_ns, swap = 0;
  uint32_t which = plan::none;
  for (uint32_t on : x.after) {
    const int64_t end = rank.spans[on].end_ns;
    if (p.instructions[on].lane != plan::lane::io)
      others = std::max(others, end);
    else if (end > swap)
      swap = end, which = on;
  }
  const double waited = double(swap - others) / 1e9;
  if (which == plan::none || waited <= out.longest_wait_s) return;
  out.longest_wait_s = waited;
  out.waiter = p.describe(x.id);
  out.waited_for = p.describe(which);
}

}  // namespace

io_figures io_of(std::span<const rank_spans> ranks) {
  io_figures out;
  const double n = double(ranks.size()) * 1e9;
  for (const auto& c : ranks) {
    const auto& p = *c.plan;
    if (p.lanes[static_cast<size_t>(plan::lane::io)].empty()) continue;
    std::vector<interval> reads, writes, work;
    uint32_t before[plan::num_lanes];
    std::ranges::fill(before, plan::none);
    for (const auto& x : p.instructions) {
      if (works(x)) {
        work.push_back(c.spans[x.id]);
        note_wait(out, c, x, std::exchange(before[static_cast<size_t>(x.lane)], x.id));
      }
      if (x.lane != plan::lane::io) continue;
      if (x.repeats != plan::repetition::redo) out.planned_bytes += x.moved_bytes;
      if (!c.acted(x.guard)) continue;
      const bool in = plan::row_of(x.kind).bytes == plan::touched::disk_read;
      (in ? out.read_bytes : out.written_bytes) += x.moved_bytes;
      (in ? reads : writes).push_back(c.spans[x.id]);
    }
    std::vector<interval> all = reads;
    all.insert(all.end(), writes.begin(), writes.end());
    work = joined(work), reads = joined(reads), writes = joined(writes);
    all = joined(all);
    out.read_s += double(length_ns(reads)) / n;
    out.write_s += double(length_ns(writes)) / n;
    out.read_hidden_s += double(common_length_ns(reads, work)) / n;
    out.stalled_s += double(length_ns(all) - common_length_ns(all, work)) / n;
  }
  return out;
}

void take_mean(io_figures& mean, const io_figures& x, uint64_t steps) {
  take_mean(mean.read_bytes, x.read_bytes, steps);
  take_mean(mean.written_bytes, x.written_bytes, steps);
  take_mean(mean.read_s, x.read_s, steps);
  take_mean(mean.write_s, x.write_s, steps);
  take_mean(mean.read_hidden_s, x.read_hidden_s, steps);
  take_mean(mean.stalled_s, x.stalled_s, steps);
  mean.planned_bytes = x.planned_bytes;
  if (x.longest_wait_s <= mean.longest_wait_s) return;
  mean.longest_wait_s = x.longest_wait_s;
  mean.waiter = x.waiter;
  mean.waited_for = x.waited_for;
}

}  // namespace troupe::telemetry
