// Owns the part of a step that saves: snapshots of the states as the previous step left them, written to the disk while
// the step runs.
#include "plan/write/write.hpp"

#include <deque>

#include "plan/layout/saves.hpp"

namespace troupe::plan {

void write_saves(draft& d, const rank_plan& p) {
  const uint64_t slots = staging_slots(*p.layout), slot_bytes = staging_slot_bytes(*p.layout);
  std::deque<uint32_t> waiting;  // staging buffers in the order of their snapshots
  for (uint32_t b = 0; b < p.snapshots.size(); ++b) {
    const handle copy = d.append(kind::snapshot, b, 0);
    if (waiting.size() == slots) {
      d.buffer(waiting.front()).free_from = copy;
      waiting.pop_front();
    }
    const uint32_t slot = d.open(copy, pool::staging, slot_bytes, b);
    const handle write = d.append(kind::write, b, 0);
    for (const handle x : {copy, write}) {
      d.at(x).moved_bytes = p.snapshots[b].bytes;
      d.at(x).slots.staging = slot;
    }
    d.depend(write, copy);
    d.buffer(slot).last = write;
    waiting.push_back(slot);
  }
}

}  // namespace troupe::plan
