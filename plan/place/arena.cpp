#include "plan/place/arena.hpp"

#include <algorithm>

#include "core/math.hpp"
#include "plan/instruction.hpp"

namespace troupe::plan {

arena::lease arena::take(uint64_t bytes) {
  bytes = core::round_up(std::max<uint64_t>(bytes, 1), alignment);
  // Finds the first run of neighbouring free spans that has enough bytes together; a run at the pool's end may grow.
  size_t begin = 0, end = 0;
  uint64_t room = 0;
  bool found = false;
  for (size_t i = 0; i < spans_.size() && !found; ++i) {
    if (spans_[i].taken) {
      room = 0;
      begin = i + 1;
      continue;
    }
    room += spans_[i].bytes;
    end = i + 1;
    found = room >= bytes;
  }
  if (!found) {
    if (room == 0) begin = spans_.size();
    spans_.push_back({peak_, bytes - room, false, none});
    peak_ += bytes - room;
    end = spans_.size();
    room = bytes;
  }
  lease out{spans_[begin].offset, {}};
  for (size_t i = begin; i < end; ++i)
    if (spans_[i].reader != none) out.after.push_back(spans_[i].reader);
  const uint64_t rest = room - bytes;
  const span tail{out.offset + bytes, rest, false, spans_[end - 1].reader};
  spans_[begin] = {out.offset, bytes, true, none};
  spans_.erase(spans_.begin() + static_cast<long>(begin) + 1, spans_.begin() + static_cast<long>(end));
  if (rest > 0) spans_.insert(spans_.begin() + static_cast<long>(begin) + 1, tail);
  return out;
}

void arena::give_back(uint64_t offset, uint32_t reader) {
  for (auto& s : spans_)
    if (s.offset == offset && s.taken) {
      s.taken = false;
      s.reader = reader;
      return;
    }
}

}  // namespace troupe::plan
