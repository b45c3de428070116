#include "fabric/shared/board.hpp"

#include <fmt/format.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <bit>

#include "fabric/sentences.hpp"

namespace troupe::fabric {
namespace {

/// A 64-bit word that processes share; it must be lock-free.
using word = std::atomic<uint64_t>;
static_assert(word::is_always_lock_free);

/// Returns the digest of all fields that must be equal on all members, pieces included.
uint64_t digest_of(const request& r) {
  uint64_t seed = XXH3_64bits(r.id.what.data(), r.id.what.size());
  const uint64_t fields[] = {r.id.step,
                             r.id.communicator,
                             r.id.sequence,
                             static_cast<uint64_t>(r.op),
                             static_cast<uint64_t>(r.input_type),
                             static_cast<uint64_t>(r.communication),
                             static_cast<uint64_t>(r.output_type),
                             std::bit_cast<uint32_t>(r.input_scale),
                             r.accumulate ? 1U : 0U,
                             r.pieces.size()};
  seed = XXH3_64bits_withSeed(fields, sizeof fields, seed);
  for (const piece& p : r.pieces) {
    const uint64_t words[] = {p.owner, p.from, p.to, p.count};
    seed = XXH3_64bits_withSeed(words, sizeof words, seed);
  }
  return seed;
}

}  // namespace

arrival arrival::of(const request& r, const location& input, const location& output) {
  arrival out;
  out.input = input;
  out.output = output;
  out.digest = digest_of(r);
  out.step = r.id.step;
  out.num_pieces = r.pieces.size();
  out.communicator = r.id.communicator;
  out.input_scale = r.input_scale;
  out.op = r.op;
  out.input_type = r.input_type;
  out.communication = r.communication;
  out.output_type = r.output_type;
  out.accumulate = r.accumulate;
  std::copy_n(r.pieces.begin(), std::min(r.pieces.size(), out.first_pieces.size()), out.first_pieces.begin());
  std::copy_n(r.id.what.begin(), std::min(r.id.what.size(), out.what.size() - 1), out.what.begin());
  return out;
}

request arrival::as_request(uint64_t sequence) const {
  request r;
  r.id = {step, communicator, sequence, what.data()};
  r.op = op;
  r.pieces = std::span(first_pieces).first(std::min<uint64_t>(num_pieces, first_pieces.size()));
  r.input_type = input_type;
  r.communication = communication;
  r.output_type = output_type;
  r.input_scale = input_scale;
  r.accumulate = accumulate;
  return r;
}

std::optional<std::string> difference(const arrival& wanted, const arrival& got, uint64_t sequence) {
  if (wanted.digest == got.digest) return std::nullopt;
  if (auto found = difference(wanted.as_request(sequence), got.as_request(sequence))) return found;
  const auto counts = [](const arrival& a) { return fmt::to_string(a.num_pieces); };
  if (wanted.num_pieces != got.num_pieces) return "number of pieces: wanted " + counts(wanted) + ", got " + counts(got);
  return "wanted the same instruction and pieces, got others that differ after what is shown here";
}

/// State of one operation of one member. Operations whose sequences are equal modulo `board_shape::operations` use the
/// same slot one after the other, so `arrived` and `finished` only grow.
struct alignas(64) board::slot {
  word arrived;   ///< sequence + 1 of the last operation that the member has posted; set after `said` was written
  word finished;  ///< sequence + 1 of the last operation of which the member has done its part
  arrival said;
};

/// The reason why one member ended the communicator; that member writes it before it sets `head::failed`.
struct alignas(64) board::line {
  uint64_t kind;
  uint64_t bytes;
  std::array<char, reason_bytes_max> text;
};

struct alignas(64) board::head {
  word failed;  ///< number + 1 of the member that failed first; 0: none
};

uint64_t board::bytes_of(const board_shape& shape) {
  return sizeof(head) + shape.members * (sizeof(line) + uint64_t{shape.operations} * sizeof(slot));
}

core::result<void> board::check(std::span<const std::byte> memory, const board_shape& shape) {
  if (shape.members == 0 || !std::has_single_bit(shape.operations))
    return core::refused(fmt::format(
        "a board of at least one member and a power of two of operations was wanted, got {} members and {} operations",
        shape.members, shape.operations));
  if (memory.size() < bytes_of(shape) || reinterpret_cast<uintptr_t>(memory.data()) % 64 != 0)
    return core::refused(fmt::format("a board of {} members: wanted {} bytes at a multiple of 64, got {} bytes",
                                     shape.members, bytes_of(shape), memory.size()));
  return {};
}

board::board(std::span<std::byte> memory, const board_shape& shape) : memory_(memory.data()), shape_(shape) {}

board::head& board::first() const { return *reinterpret_cast<head*>(memory_); }

board::line& board::line_of(uint32_t member) const { return reinterpret_cast<line*>(memory_ + sizeof(head))[member]; }

board::slot& board::at(uint32_t member, uint64_t sequence) const {
  auto* slots = reinterpret_cast<slot*>(memory_ + sizeof(head) + shape_.members * sizeof(line));
  return slots[uint64_t{member} * shape_.operations + (sequence & (shape_.operations - 1))];
}

// arrive() and finish() store with sequential consistency: if several members write at once and then read each other's
// slots, the last member to write sees all of the writes, so at least one member wakes all other members.
void board::arrive(uint32_t member, uint64_t sequence, const arrival& said) {
  slot& s = at(member, sequence);
  s.said = said;
  s.arrived.store(sequence + 1);
}

bool board::has_arrived(uint32_t member, uint64_t sequence) const {
  return at(member, sequence).arrived.load() > sequence;
}

const arrival& board::said(uint32_t member, uint64_t sequence) const { return at(member, sequence).said; }

bool board::all_arrived(uint64_t sequence) const {
  for (uint32_t m = 0; m < shape_.members; ++m)
    if (!has_arrived(m, sequence)) return false;
  return true;
}

void board::finish(uint32_t member, uint64_t sequence) { at(member, sequence).finished.store(sequence + 1); }

bool board::has_finished(uint32_t member, uint64_t sequence) const {
  return at(member, sequence).finished.load() > sequence;
}

bool board::all_finished(uint64_t sequence) const {
  for (uint32_t m = 0; m < shape_.members; ++m)
    if (!has_finished(m, sequence)) return false;
  return true;
}

core::error board::fail(uint32_t member, const core::error& why) {
  if (auto first_reason = failure()) return *first_reason;
  line& mine = line_of(member);
  mine.kind = static_cast<uint64_t>(why.kind);
  mine.bytes = std::min<uint64_t>(why.text.size(), mine.text.size());
  std::copy_n(why.text.begin(), mine.bytes, mine.text.begin());
  uint64_t nobody = 0;
  first().failed.compare_exchange_strong(nobody, member + 1);
  return *failure();
}

std::optional<core::error> board::failure() const {
  const uint64_t who = first().failed.load();
  if (who == 0) return std::nullopt;
  const line& reason = line_of(static_cast<uint32_t>(who - 1));
  const uint64_t bytes = std::min<uint64_t>(reason.bytes, reason.text.size());
  return core::error{static_cast<core::error_kind>(reason.kind), std::string(reason.text.data(), bytes)};
}

}  // namespace troupe::fabric
