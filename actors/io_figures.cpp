#include "actors/io_figures.hpp"

#include <algorithm>

#include "actors/step_context.hpp"
#include "telemetry/spans.hpp"

namespace troupe::actors {
namespace {

using telemetry::interval;

interval span_of(const step_context& c, uint32_t id) {
  return {c.spans[id].start_ns.load(std::memory_order_relaxed), c.spans[id].end_ns.load(std::memory_order_relaxed)};
}

bool works(const plan::instruction& x) { return x.lane == plan::lane::compute || x.lane == plan::lane::shard; }

// What an instruction that works waited for alone: the swap that ended last of all it depended on.
void note_wait(io_figures& out, const step_context& c, const plan::instruction& x) {
  const auto& p = c.plan();
  int64_t others = 0, swap = 0;
  uint32_t which = plan::none;
  const uint32_t position = c.program->position[x.id];
  if (position > 0) others = span_of(c, p.lanes[static_cast<size_t>(x.lane)][position - 1]).end_ns;
  for (uint32_t on : x.after) {
    const int64_t end = span_of(c, on).end_ns;
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

io_figures io_of(const std::vector<std::shared_ptr<step_context>>& ranks) {
  io_figures out;
  const double n = double(ranks.size()) * 1e9;
  for (const auto& c : ranks) {
    const auto& p = c->plan();
    if (p.lanes[static_cast<size_t>(plan::lane::io)].empty()) continue;
    std::vector<interval> reads, writes, work;
    for (const auto& x : p.instructions) {
      if (works(x)) {
        work.push_back(span_of(*c, x.id));
        note_wait(out, *c, x);
      }
      if (x.lane != plan::lane::io) continue;
      out.planned_bytes += x.bytes;
      if (!c->acts(x.guard)) continue;
      const bool in = x.kind == plan::kind::swap_in;
      (in ? out.read_bytes : out.written_bytes) += x.bytes;
      (in ? reads : writes).push_back(span_of(*c, x.id));
    }
    std::vector<interval> all = reads;
    all.insert(all.end(), writes.begin(), writes.end());
    work = telemetry::joined(work), reads = telemetry::joined(reads), writes = telemetry::joined(writes);
    all = telemetry::joined(all);
    out.read_s += double(telemetry::length_ns(reads)) / n;
    out.write_s += double(telemetry::length_ns(writes)) / n;
    out.read_hidden_s += double(telemetry::common_length_ns(reads, work)) / n;
    out.stalled_s += double(telemetry::length_ns(all) - telemetry::common_length_ns(all, work)) / n;
  }
  return out;
}

void take_mean(io_figures& mean, const io_figures& x, uint64_t steps) {
  const auto into = [steps](auto& to, auto value) {
    to = static_cast<std::decay_t<decltype(to)>>(double(to) + (double(value) - double(to)) / double(steps));
  };
  into(mean.read_bytes, x.read_bytes);
  into(mean.written_bytes, x.written_bytes);
  into(mean.read_s, x.read_s);
  into(mean.write_s, x.write_s);
  into(mean.read_hidden_s, x.read_hidden_s);
  into(mean.stalled_s, x.stalled_s);
  mean.planned_bytes = x.planned_bytes;
  if (x.longest_wait_s <= mean.longest_wait_s) return;
  mean.longest_wait_s = x.longest_wait_s;
  mean.waiter = x.waiter;
  mean.waited_for = x.waited_for;
}

}  // namespace troupe::actors
