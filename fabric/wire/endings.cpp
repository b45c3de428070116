#include "fabric/wire/endings.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <string>

#include "core/math.hpp"
#include "fabric/shared/board.hpp"

namespace troupe::fabric {
namespace {

using word = std::atomic<uint64_t>;

uint64_t order_bytes(uint32_t members) { return core::round_up(members * sizeof(word), uint64_t{64}); }

}  // namespace

struct alignas(64) endings::line {
  word is_said;  ///< 1 when the other fields are written, so that other processes may read them; 0 before
  uint64_t from, kind, bytes;
  std::array<char, reason_bytes_max> text;
};

uint64_t endings::bytes_of(uint32_t members) { return order_bytes(members) + members * sizeof(line); }

endings::endings(std::span<std::byte> memory, uint32_t members) : memory_(memory.data()), members_(members) {
  assert(memory.size() >= bytes_of(members) && reinterpret_cast<uintptr_t>(memory_) % 64 == 0);
}

endings::line& endings::line_of(uint32_t member) const {
  return reinterpret_cast<line*>(memory_ + order_bytes(members_))[member];
}

void endings::say(uint32_t member, const ending_said& what) {
  line& mine = line_of(member);
  if (mine.is_said.load() != 0) return;
  mine.from = what.from;
  mine.kind = static_cast<uint64_t>(what.why.kind);
  mine.bytes = std::min<uint64_t>(what.why.text.size(), mine.text.size());
  std::copy_n(what.why.text.begin(), mine.bytes, mine.text.begin());
  mine.is_said.store(1);
}

std::optional<ending_said> endings::said(uint32_t member) const {
  const line& x = line_of(member);
  if (x.is_said.load() == 0) return std::nullopt;
  const uint64_t bytes = std::min<uint64_t>(x.bytes, x.text.size());
  return ending_said{x.from, {static_cast<core::error_kind>(x.kind), std::string(x.text.data(), bytes)}};
}

void endings::enforce(uint32_t member) {
  auto* order = reinterpret_cast<word*>(memory_);
  for (uint32_t n = 0; n < members_; ++n) {
    uint64_t there = 0;
    if (order[n].compare_exchange_strong(there, member + 1) || there == member + 1) return;
  }
}

std::optional<uint32_t> endings::in_force(uint32_t n) const {
  if (n >= members_) return std::nullopt;
  const uint64_t who = reinterpret_cast<const word*>(memory_)[n].load();
  if (who == 0) return std::nullopt;
  return static_cast<uint32_t>(who - 1);
}

bool endings::is_in_force(uint32_t member) const {
  for (uint32_t n = 0; const auto who = in_force(n); ++n)
    if (*who == member) return true;
  return false;
}

std::optional<core::error> endings::failure_of(uint64_t sequence) const {
  for (uint32_t n = 0; const auto who = in_force(n); ++n) {
    const line& x = line_of(*who);
    if (x.from <= sequence) return said(*who)->why;
  }
  return std::nullopt;
}

}  // namespace troupe::fabric
