// Makes instructions that change states wait for the snapshots of these states, in steps that save.
#include <fmt/format.h>

#include "plan/passes/passes.hpp"

namespace troupe::plan {

std::string wait_for_snapshots(draft& d, const rank_plan& p) {
  if (!p.options().saving.on) return {};
  std::vector<handle> snapshot(p.snapshots.size(), none);  // [block]: snapshot of the block; snapshots end in order
  // [parameter]: last block that contains elements of it.
  std::vector<uint32_t> last(p.table().parameters.size(), none);
  uint32_t waiting = 0;
  for (handle x = d.first(); x != none; x = d.next(x)) {
    if (d.is_mark(x)) continue;
    const kind k = d.at(x).kind;
    const uint32_t subject = d.at(x).subject;
    if (k == kind::snapshot) {
      snapshot[subject] = x;
      for (const auto& piece : p.snapshots[subject].pieces) last[piece.parameter] = subject;
    }
    if (k != kind::prepare && k != kind::update) continue;
    uint32_t latest = none;
    for (const auto& piece : p.sub_groups[subject].pieces)
      if (const uint32_t b = last[piece.parameter]; b != none && (latest == none || b > latest)) latest = b;
    if (latest == none) continue;
    d.depend(x, snapshot[latest]);
    ++waiting;
  }
  return waiting == 0 ? "" : fmt::format("changes of states that wait for snapshots of these states: {}", waiting);
}

}  // namespace troupe::plan
