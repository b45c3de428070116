// Records which members have posted each operation of one communicator, and compares their requests. Owns the
// window of unfinished operations and the text of a mismatch. Not thread-safe. Leaves threads, clocks, the movement of
// bytes and wakes to the backends.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "fabric/communicator.hpp"
#include "fabric/movement.hpp"

namespace troupe::fabric {

/// The state of one collective operation, from the arrival of its first member until the last member has done its part
/// of the work. The object keeps its address during that time.
struct posted_operation {
  enum class share : uint8_t { waiting, begun, finished };
  request shared;                      ///< request of the first member to arrive; its input and output are in `memory`
  uint32_t first = 0;                  ///< rank of the member that arrived first
  std::vector<member_memory> memory;   ///< [member]: addresses of the member's input and output
  std::vector<share> shares;           ///< [member]: state of the member's part of the work
  uint32_t arrived = 0, finished = 0;  ///< numbers of members that have posted the operation, and that have done their
                                       ///< part of it
  uint64_t bytes = 0;                  ///< bytes of all pieces of the operation, in the input's dtype
  int64_t ready_ns = 0;                ///< virtual time at which the operation is done, for the modelled backend
};

class rendezvous {  ///< records which members of a group have posted which operation, and compares their requests
 public:
  /// Creates a rendezvous of `size` members. `ranks`: the ranks that errors name, where they differ from the members'
  /// numbers.
  explicit rendezvous(uint32_t size, std::vector<uint32_t> ranks = {}) : next_(size), ranks_(std::move(ranks)) {}
  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(next_.size()); }
  /// Returns the name of a member for error messages, such as "rank 4".
  [[nodiscard]] std::string name_of(uint32_t rank) const;

  /// Records that `rank` has posted `r`. After an error nothing is recorded; the caller calls `fail` with the error.
  core::result<posted_operation*> arrive(uint32_t rank, const request& r);
  /// Records that `rank` has posted the operation that `like` has just posted, with the same request. Requires that
  /// both have posted the same operations before.
  void follow(uint32_t rank, uint32_t like);

  /// Returns the unfinished operation `sequence` that `rank` has posted; null when the operation is done. Errors: the
  /// communicator's failure, or a sequence that `rank` has not posted.
  core::result<posted_operation*> find(uint32_t rank, uint64_t sequence);

  /// Records that `rank` has done its part of operation `sequence`, which is not done yet. Returns true if all members
  /// have now done theirs, so that the operation is done.
  bool finish(uint64_t sequence, uint32_t rank);

  /// Returns the members that have not posted operation `sequence`; if all have, those that have not done their part of
  /// it.
  [[nodiscard]] std::vector<uint32_t> missing(uint64_t sequence) const;

  /// Makes all unfinished and future operations fail with `why`. Returns (rank, sequence) for every posted operation
  /// that fails by this call, so that the caller can wake the rank; empty if there was a failure before.
  std::vector<std::pair<uint32_t, uint64_t>> fail(core::error why);
  [[nodiscard]] const std::optional<core::error>& failure() const { return failure_; }

  /// Returns the error with which the communicator fails when member `rank` is destroyed. The error names the oldest
  /// unfinished operation.
  [[nodiscard]] core::error lost(uint32_t rank) const;

 private:
  core::result<void> check_turn(uint32_t rank, const request& r) const;
  core::result<void> open(uint32_t rank, const request& r);

  std::vector<uint64_t> next_;  ///< [member]: sequence number of the operation that the member posts next
  /// [member]: the rank number that error messages print for the member; empty: the member's own number
  std::vector<uint32_t> ranks_;
  uint64_t oldest_ = 0;  ///< sequence number of the operation at the front of `window_`
  std::deque<std::unique_ptr<posted_operation>> window_;  ///< operations from `oldest_` on; null for one that is done
  /// Objects of finished operations, for reuse; never more than the largest number of operations in flight.
  std::vector<std::unique_ptr<posted_operation>> spare_;
  std::optional<core::error> failure_;
};

}  // namespace troupe::fabric
