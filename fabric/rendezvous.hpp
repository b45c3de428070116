// Which members have arrived at each operation of one communicator, and whether all mean the same one.
// Owns the window of unfinished operations and the text of a mismatch. Not thread-safe; knows neither threads nor
// clocks, moves no bytes and wakes no one: the backends do.
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

/// One operation from its first arrival to its last finished share. Its address stays while it is unfinished.
struct meeting {
  enum class share : uint8_t { waiting, begun, finished };
  request shared;                      ///< of the first to arrive; its input and output are in `memory`
  uint32_t first = 0;                  ///< the first to arrive
  std::vector<member_memory> memory;   ///< by rank
  std::vector<share> shares;           ///< by rank
  uint32_t arrived = 0, finished = 0;  ///< members
  uint64_t bytes = 0;                  ///< of all pieces, as inputs
  int64_t ready_ns = 0;                ///< for the modelled backend: when it is done
};

class rendezvous {  ///< where the members of a group meet
 public:
  /// `ranks`: what the members are called in errors, where that is not their number here.
  explicit rendezvous(uint32_t size, std::vector<uint32_t> ranks = {}) : next_(size), ranks_(std::move(ranks)) {}
  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(next_.size()); }
  /// "rank 4": how errors name a member.
  [[nodiscard]] std::string name_of(uint32_t rank) const;

  /// Books `rank`'s arrival. An error books nothing; it is up to the caller to `fail` with it.
  core::result<meeting*> arrive(uint32_t rank, const request& r);

  /// The unfinished operation `sequence` that `rank` has posted; null when it is done; otherwise the failure.
  core::result<meeting*> find(uint32_t rank, uint64_t sequence);

  /// `rank`'s share of an unfinished operation is finished; true when it was the last, and `sequence` is done.
  bool finish(uint64_t sequence, uint32_t rank);

  /// See communicator::missing.
  [[nodiscard]] std::vector<uint32_t> missing(uint64_t sequence) const;

  /// All unfinished and future operations fail. Returns the wakes, (rank, sequence), of every operation that this call
  /// makes fail; empty if there was a failure before.
  std::vector<std::pair<uint32_t, uint64_t>> fail(core::error why);
  [[nodiscard]] const std::optional<core::error>& failure() const { return failure_; }

  /// The error to fail with when `rank` ends: names the oldest unfinished operation.
  [[nodiscard]] core::error lost(uint32_t rank) const;

 private:
  core::result<void> check_turn(uint32_t rank, const request& r) const;
  core::result<void> open(uint32_t rank, const request& r);

  std::vector<uint64_t> next_;                   ///< by rank
  std::vector<uint32_t> ranks_;                  ///< by rank, or empty
  uint64_t oldest_ = 0;                          ///< sequence of window_.front()
  std::deque<std::unique_ptr<meeting>> window_;  ///< null where done
  std::vector<std::unique_ptr<meeting>> spare_;  ///< finished ones, used again; never more than were in flight
  std::optional<core::error> failure_;
};

}  // namespace troupe::fabric
