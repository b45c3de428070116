// Collectives as the collective actor sees them: post, be woken, do one's share, be told that all are done.
// Owns the rendezvous and the movement of bytes. Leaves order, dependencies and memory to the plan.
//
// Nothing here blocks a thread. `post` says that this member has arrived; whoever arrives last wakes all
// members; each then calls `advance` on its own thread, which does its share of the work. An operation is
// `done` for everybody only when every member has finished its share: from then on no peer reads my memory
// and I read no peer's, so both input and output may be reused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "core/error.hpp"

namespace troupe::fabric {

enum class operation : uint8_t { all_gather, reduce_scatter, all_reduce, broadcast, barrier, send_receive };

/// Which operation this is, equal on all members; `sequence` counts up by one on each communicator.
struct identity {
  uint64_t step = 0;
  uint32_t communicator = 0;
  uint64_t sequence = 0;
  std::string what;  ///< the instruction, spelled for people: "gather block 3, micro 0, backward"
};

/// A run of elements with one owner. Offsets count elements.
struct piece {
  uint32_t owner = 0;  ///< rank within the communicator
  uint64_t from = 0;   ///< offset in an input: the owner's (all_gather), everybody's (reduce)
  uint64_t to = 0;     ///< offset in an output: everybody's (all_gather, all_reduce), the owner's (reduce_scatter)
  uint64_t count = 0;
};

/// What one member brings. `pieces` is the same list on all members and outlives the operation.
///   all_gather      output[to..] = owner's input[from..]; no piece moves when both are the same address
///   reduce_scatter  owner's output[to..] = sum over ranks, in rank order, of input[from..]
///   all_reduce      the same on every member
///   broadcast       as all_gather; all pieces are the root's
///   barrier         no pieces
///   send_receive    as all_gather among two members; pieces of both directions
/// Reductions follow docs/numerics.md: fp32 sum in rank order, rounded once to `communication`, then stored as
/// `output_type`, or added to it when `accumulate`.
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

enum class progress : uint8_t { pending, done };

/// Called from any thread when `advance(sequence)` has something to do. It may only mail somebody.
using waker = std::function<void(uint64_t sequence)>;

/// One member of one communicator. Calls of one member come from one thread at a time.
class communicator {
 public:
  virtual ~communicator() = default;
  [[nodiscard]] virtual uint32_t rank() const = 0;
  [[nodiscard]] virtual uint32_t size() const = 0;

  /// This member has arrived. Sequences are posted in order without gaps, at most `operations_in_flight_max` unfinished.
  /// An identity, operation, dtype or layout that differs from another member's fails here and on all other members.
  virtual core::result<void> post(const request& r) = 0;

  /// Does this member's share when its turn has come. Idempotent: `pending` when there is nothing to do yet.
  virtual core::result<progress> advance(uint64_t sequence) = 0;

  /// Members that have not arrived at `sequence`: what a stall report names.
  [[nodiscard]] virtual std::vector<uint32_t> missing(uint64_t sequence) const = 0;

  /// Ends the communicator for every member: all unfinished and future operations fail with `why`, everybody is woken.
  virtual void abort(const core::error& why) = 0;
};

/// Unfinished operations of one member; the plan's window is far below.
inline constexpr uint64_t operations_in_flight_max = 4096;

}  // namespace troupe::fabric
