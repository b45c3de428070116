// Records which members have arrived at each operation of one communicator, and compares their requests. Owns the
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

/// The state of one collective operation, from the arrival of its first member until the last member has finished its
/// share. The object keeps its address during that time.
struct meeting {
  enum class share : uint8_t { waiting, begun, finished };
  request shared;                      ///< request of the first member to arrive; its input and output are in `memory`
  uint32_t first = 0;                  ///< rank of the member that arrived first
  std::vector<member_memory> memory;   ///< addresses of a member's input and output, by rank
  std::vector<share> shares;           ///< state of a member's share of the operation, by rank
  uint32_t arrived = 0, finished = 0;  ///< numbers of members that have arrived and that have finished their share
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

  /// Records `rank`'s arrival. After an error nothing is recorded; the caller calls `fail` with the error.
  core::result<meeting*> arrive(uint32_t rank, const request& r);

  /// Returns the unfinished operation `sequence` that `rank` has posted; null when the operation is done. Errors: the
  /// communicator's failure, or a sequence that `rank` has not posted.
  core::result<meeting*> find(uint32_t rank, uint64_t sequence);

  /// Records that `rank` has finished its share of an unfinished operation. True if that share was the last, so that
  /// `sequence` is done.
  bool finish(uint64_t sequence, uint32_t rank);

  /// Returns the members that have not arrived at operation `sequence`, or have not finished it; see
  /// communicator::missing.
  [[nodiscard]] std::vector<uint32_t> missing(uint64_t sequence) const;

  /// Makes all unfinished and future operations fail. Returns the wakes, (rank, sequence), of every operation that this
  /// call makes fail; empty if there was a failure before.
  std::vector<std::pair<uint32_t, uint64_t>> fail(core::error why);
  [[nodiscard]] const std::optional<core::error>& failure() const { return failure_; }

  /// Returns the error to fail with when `rank` ends; it names the oldest unfinished operation.
  [[nodiscard]] core::error lost(uint32_t rank) const;

 private:
  core::result<void> check_turn(uint32_t rank, const request& r) const;
  core::result<void> open(uint32_t rank, const request& r);

  std::vector<uint64_t> next_;  ///< sequence of the operation that a rank posts next, by rank
  /// [member]: the rank number that error messages print for the member; empty: the member's own number
  std::vector<uint32_t> ranks_;
  uint64_t oldest_ = 0;                          ///< sequence of the operation at the front of `window_`
  std::deque<std::unique_ptr<meeting>> window_;  ///< operations from `oldest_` on; null for one that is done
  /// Objects of finished operations, for reuse; never more than the largest number of operations in flight.
  std::vector<std::unique_ptr<meeting>> spare_;
  std::optional<core::error> failure_;
};

}  // namespace troupe::fabric
