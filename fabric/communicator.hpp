// Declares a collective as the collective actor uses it: post, be woken, do this member's part of the work, learn that
// all members are done. Owns the rendezvous and the movement of bytes. Leaves order, dependencies and memory to the
// plan.
//
// No call blocks a thread. `post` records that this member has arrived; the last member to arrive wakes the others.
// Each member then calls `advance` on its own thread, which does its part of the work. An operation is `done` for any
// member only when every member has finished its part: from then on no member touches another's memory, so both input
// and output may be reused. Until then peers may read this member's input and write its output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/error.hpp"

namespace troupe::fabric {

/// Kind of a collective operation.
enum class operation : uint8_t { all_gather, reduce_scatter, all_reduce, broadcast, barrier, send_receive, all_to_all };

constexpr std::string_view name_of(operation op) {  ///< returns the name of the operation for error messages
  switch (op) {
    case operation::all_gather:
      return "all_gather";
    case operation::reduce_scatter:
      return "reduce_scatter";
    case operation::all_reduce:
      return "all_reduce";
    case operation::broadcast:
      return "broadcast";
    case operation::barrier:
      return "barrier";
    case operation::send_receive:
      return "send_receive";
    case operation::all_to_all:
      return "all_to_all";
  }
  return "?";
}

/// Identity of one operation, equal on all members. `sequence` counts up by one from 0 on each communicator.
struct identity {
  uint64_t step = 0;
  uint32_t communicator = 0;
  uint64_t sequence = 0;
  std::string what;  ///< name of the instruction, for messages: "gather block 3, micro 0, backward"
};

/// A run of elements with one owner. Offsets count elements. A sum that several members own has one piece for each
/// owner, consecutive in the list, with equal `from` and `count`: a range of pieces (layout.hpp).
struct piece {
  uint32_t owner = 0;  ///< rank of the piece's owner within the communicator
  /// Offset of the piece in the input of its owner (all_gather), or in the input of every member (reductions).
  uint64_t from = 0;
  /// Offset of the piece in the output of every member (all_gather, all_reduce), or of its owner (reduce_scatter).
  uint64_t to = 0;
  uint64_t count = 0;
  friend bool operator==(const piece&, const piece&) = default;
};

/// One member's part of an operation. All fields but `input` and `output` are equal on all members, including the
/// values of `pieces`, which must outlive the operation.
///   all_gather      output[to..] = owner's input[from..]; no piece moves when both are the same address
///   reduce_scatter  owner's output[to..] = sum over ranks, in rank order, of input[from..]; if several members own a
///                   range, each sums a part and writes it to all of them
///   all_reduce      every member's output[to..] = sum over ranks, in rank order, of input[from..]
///   broadcast       an all_gather of which one member, the root, owns all pieces
///   barrier         no pieces
///   send_receive    two members; a piece goes from its owner's input[from..] to the other member's output[to..];
///                   pieces of both owners make a transfer in both directions
///   all_to_all      one piece per member, all with one count; output[to..] of member m = owner's
///                   input[from + m * count..]
/// all_gather, broadcast, send_receive and all_to_all move bytes and require `input_type` == `output_type`. Reductions
/// follow docs/numerics.md: fp32 sum in rank order, rounded once to `communication`, then stored as `output_type`, or
/// added to it when `accumulate`. In place means that a member writes each piece where it reads it, in elements of the
/// same type and without `accumulate`; `check_memory` (layout.hpp) refuses any other overlap of input and output.
struct request {
  identity id;
  operation op = operation::barrier;
  std::span<const piece> pieces;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  core::dtype input_type = core::dtype::f32, communication = core::dtype::f32, output_type = core::dtype::f32;
  float input_scale = 1.0F;
  bool accumulate = false;
};

/// Result of communicator::advance. `done`: the operation has ended, and this member may reuse its input and output.
enum class progress : uint8_t { pending, done };

/// Wakes a member. Called from any thread, without locks, when `advance(sequence)` of this member has something to do.
/// A waker may only send a message, and it owns everything it uses: a call may still run while the communicator ends. A
/// wake may also come for a sequence that was already seen `done`: ignore it.
using waker = std::function<void(uint64_t sequence)>;

/// One member of one communicator. Calls of one member come from one thread at a time.
///
/// After an error, and when a member ends before its peers, memory of unfinished operations may still be touched until
/// this member's communicator is destroyed: destroy it before the memory. The destructor ends the communicator for
/// every member (`peer_lost`) and waits for copies that run at that moment, never for a message.
class communicator {
 public:
  virtual ~communicator() = default;
  [[nodiscard]] virtual uint32_t rank() const = 0;
  [[nodiscard]] virtual uint32_t size() const = 0;

  /// Records that this member has posted `r`. Sequences are posted in order without gaps, less than
  /// `operations_in_flight_max` beyond the oldest unfinished one. Call `advance` once right after `post`: a member is
  /// not woken for progress that its own post makes possible. Errors: an identity, operation, dtype or layout that
  /// differs from another member's, and every other refusal, fails here and on all other members.
  virtual core::result<void> post(const request& r) = 0;

  /// Does this member's part of operation `sequence` if all members have posted it. Idempotent: returns `pending` when
  /// there is nothing to do yet, and `done` for every finished operation, however old and even after an `abort`.
  virtual core::result<progress> advance(uint64_t sequence) = 0;

  /// Returns the members that operation `sequence` waits for, for reports of a stall: the members that have not posted
  /// it or, when all have, the members that have not done their part of the work. Empty when the operation is done.
  [[nodiscard]] virtual std::vector<uint32_t> missing(uint64_t sequence) const = 0;

  /// Ends the communicator for every member: all unfinished and future operations fail with `why`, and all other
  /// members are woken for each of their unfinished operations. Only the first reason counts.
  virtual void abort(const core::error& why) = 0;
};

/// Maximum number of operations that a member may have posted and that are not done; a plan's window is far smaller.
inline constexpr uint64_t operations_in_flight_max = 4096;

}  // namespace troupe::fabric
