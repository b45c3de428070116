// The meaning of a list of pieces for each operation: who reads and writes which elements, and whether that is sound.
// Pure functions; owns no memory and moves nothing.
#pragma once

#include <cstdint>
#include <span>

#include "core/error.hpp"
#include "fabric/communicator.hpp"

namespace troupe::fabric {

/// Offsets and counts of pieces stay below this, so that sizes in bytes never overflow.
inline constexpr uint64_t elements_max = uint64_t{1} << 56;

constexpr bool is_reduction(operation op) { return op == operation::reduce_scatter || op == operation::all_reduce; }

/// Whether the operation reads `rank`'s input[p.from..].
constexpr bool reads_input(operation op, const piece& p, uint32_t rank) { return is_reduction(op) || p.owner == rank; }

/// Whether the operation writes `rank`'s output[p.to..].
constexpr bool writes_output(operation op, const piece& p, uint32_t rank) {
  if (op == operation::reduce_scatter) return p.owner == rank;
  return op != operation::send_receive || p.owner != rank;
}

/// Where `rank` finds `p` in an owner's input.
constexpr uint64_t begin_in_input(operation op, const piece& p, uint32_t rank) {
  return p.from + (op == operation::all_to_all ? rank * p.count : 0);
}
/// Elements that members read of it together, from `from` on.
constexpr uint64_t read_of(operation op, const piece& p, size_t pieces) {
  return p.count * (op == operation::all_to_all ? pieces : 1);
}

/// The owners of a range share its sum: pieces [first, end) of a list, which differ in owner and `to` alone. A piece of
/// another operation than reduce_scatter is a range by itself.
size_t end_of_range(operation op, std::span<const piece> pieces, size_t first);

/// Elements [first, first + count) of a range.
struct owned_part {
  uint64_t first = 0, count = 0;
};
/// What the owner of the range's piece number `which` of `owners` sums for all of them: parts follow each other and are
/// multiples of `part_grain`, but for the end.
owned_part part_of(uint64_t count, size_t owners, size_t which);
inline constexpr uint64_t part_grain = 64;

/// The smallest buffers, in elements, that hold all elements of one member that the operation touches.
struct extent {
  uint64_t input = 0;
  uint64_t output = 0;
};
extent extent_of(operation op, std::span<const piece> pieces, uint32_t rank);

/// Elements of all pieces together.
uint64_t elements_of(std::span<const piece> pieces);

/// Bytes that the member with the most of them receives from others, each element once per peer that contributes: the
/// least that a link carries, for the linear model. Reductions count in `communication`; a sum of several owners is
/// made part by part and then exchanged among them, as a reduce_scatter and a gather would.
uint64_t received_bytes(const request& r, uint32_t size);

/// Every owner is one of `size` members, offsets stay below `elements_max`, the number of members and owners suits
/// the operation, and dtypes suit it. Linear in the number of pieces; done at every first arrival.
core::result<void> check_request(const request& r, uint32_t size);

/// No two pieces are written to the same element of any member's output. Sorts: for tests and debug builds.
core::result<void> check_outputs(operation op, std::span<const piece> pieces, uint32_t size);

/// `rank` has given an input if it is read and an output if it is written.
core::result<void> check_presence(const request& r, uint32_t rank);

/// Input and output of `rank` overlap nowhere, or in place as `request` describes, where a range is as one piece.
/// Sorts: for tests and debug builds.
core::result<void> check_memory(const request& r, uint32_t rank);

}  // namespace troupe::fabric
