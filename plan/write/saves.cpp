#include "plan/write/saves.hpp"

#include <deque>

#include "plan/layout/saves.hpp"

namespace troupe::plan {

void write_saves(plan_writer& writer) {
  auto& p = writer.plan();
  const uint64_t slots = staging_slots(*p.layout), slot_bytes = staging_slot_bytes(*p.layout);
  std::deque<std::pair<uint32_t, uint32_t>> waiting;  // buffer, write
  for (uint32_t b = 0; b < p.snapshots.size(); ++b) {
    if (waiting.size() == slots) {
      writer.close_buffer(waiting.front().first, waiting.front().second);
      waiting.pop_front();
    }
    auto& x = writer.emit(kind::snapshot, b, 0);
    x.bytes = p.snapshots[b].bytes;
    const uint32_t slot = x.buffer = writer.open_buffer(x, pool::staging, slot_bytes, b), copied = x.id;
    auto& y = writer.emit(kind::write, b, 0);
    y.bytes = p.snapshots[b].bytes;
    y.buffer = slot;
    writer.depend(y, copied);
    p.buffers[slot].last = y.id;
    waiting.emplace_back(slot, y.id);
  }
}

void wait_for_snapshots(plan_writer& writer) {
  auto& p = writer.plan();
  std::vector<uint32_t> last(p.table().parameters.size(), none);  // [parameter]: its last snapshot; they end in order
  for (uint32_t id : p.lanes[static_cast<size_t>(lane::writer)])
    if (p.instructions[id].kind == kind::snapshot)
      for (const auto& piece : p.snapshots[p.instructions[id].subject].pieces) last[piece.parameter] = id;
  for (auto& x : p.instructions) {
    if (x.kind != kind::prepare && x.kind != kind::update) continue;
    uint32_t latest = none;
    for (const auto& piece : p.sub_groups[x.subject].pieces)
      if (const uint32_t id = last[piece.parameter]; id != none && (latest == none || id > latest)) latest = id;
    plan_writer::depend(x, latest);
  }
}

}  // namespace troupe::plan
