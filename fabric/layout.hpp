// Defines the meaning of a list of pieces for each operation: which member reads and writes which elements, and whether
// that is valid. Pure functions; owns no memory and moves nothing.
#pragma once

#include <cstdint>
#include <span>

#include "core/error.hpp"
#include "fabric/communicator.hpp"

namespace troupe::fabric {

/// Upper bound (exclusive) of offsets and counts of pieces, in elements, so that sizes in bytes never overflow.
inline constexpr uint64_t elements_max = uint64_t{1} << 56;

constexpr bool is_reduction(operation op) { return op == operation::reduce_scatter || op == operation::all_reduce; }

/// True if the operation reads `rank`'s input[p.from..].
constexpr bool reads_input(operation op, const piece& p, uint32_t rank) { return is_reduction(op) || p.owner == rank; }

/// True if the operation writes `rank`'s output[p.to..].
constexpr bool writes_output(operation op, const piece& p, uint32_t rank) {
  if (op == operation::reduce_scatter) return p.owner == rank;
  return op != operation::send_receive || p.owner != rank;
}

/// Returns the index of the element in the owner's input from which on `rank` reads piece `p`.
constexpr uint64_t begin_in_input(operation op, const piece& p, uint32_t rank) {
  return p.from + (op == operation::all_to_all ? rank * p.count : 0);
}
/// Returns the number of elements of the owner's input, from `p.from` on, that all members together read for piece `p`.
constexpr uint64_t read_of(operation op, const piece& p, size_t pieces) {
  return p.count * (op == operation::all_to_all ? pieces : 1);
}

/// Returns the end of the range that begins at piece `first`. A range is the pieces [first, end) whose owners share one
/// sum; they differ in owner and `to` alone. In operations other than reduce_scatter each piece is a range by itself.
size_t end_of_range(operation op, std::span<const piece> pieces, size_t first);

/// Elements [first, first + count) of a range of pieces: the part that one owner sums for all owners of the range.
struct owned_part {
  uint64_t first = 0, count = 0;
};
/// Divides a range of `count` elements among its `owners`, and returns the part that owner number `which` sums for all
/// of them. Parts are consecutive, and their lengths are multiples of `part_grain` except at the end of the range.
owned_part part_of(uint64_t count, size_t owners, size_t which);
inline constexpr uint64_t part_grain = 64;

/// Sizes in elements of the smallest input and output buffers of one member that contain all elements which the
/// operation touches.
struct extent {
  uint64_t input = 0;
  uint64_t output = 0;
};
extent extent_of(operation op, std::span<const piece> pieces, uint32_t rank);

/// Returns the total number of elements of all pieces.
uint64_t elements_of(std::span<const piece> pieces);

/// Returns the largest number of bytes that one member receives from the others, the size of the operation for the
/// linear model of a link (linear_link.hpp). An element counts once for each peer that contributes to it, with the
/// bytes of `communication` in reductions. A sum with several owners counts as a reduce_scatter and a gather: each
/// owner sums a part, then the owners exchange the parts.
uint64_t received_bytes(const request& r, uint32_t size);

/// Checks that every owner is one of `size` members, that offsets are below `elements_max`, and that the number of
/// members, the owners and the dtypes suit the operation. Linear in the number of pieces; called for the first member
/// that posts the operation.
core::result<void> check_request(const request& r, uint32_t size);

/// Checks that no two pieces are written to the same element of any member's output. Sorts a list of all pieces, so it
/// is slow; called only in tests and debug builds.
core::result<void> check_outputs(operation op, std::span<const piece> pieces, uint32_t size);

/// Checks that the request of `rank` has the address of an input if the operation reads one, and of an output if the
/// operation writes one.
core::result<void> check_presence(const request& r, uint32_t rank);

/// Checks that input and output of `rank` do not overlap, except in place as `request` describes, where a range counts
/// as one piece. Sorts a list of all pieces, so it is slow; called only in tests and debug builds.
core::result<void> check_memory(const request& r, uint32_t rank);

}  // namespace troupe::fabric
