// Implements collectives among threads of one process: members read and write each other's memory. Owns the lock around
// the rendezvous and waits for running copies before a member ends. Bytes move outside the lock.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "device/device_id.hpp"
#include "fabric/member_of.hpp"
#include "fabric/refused_member.hpp"
#include "fabric/rendezvous.hpp"

namespace troupe::fabric {

/// Bytes (of all pieces) up to which the last member that posts an operation does the work of all members, within its
/// `post`: waking the other members costs more than the work, and this way they are woken once instead of twice.
inline constexpr uint64_t last_arrival_does_all_bytes = uint64_t{64} << 10;

/// One communicator within a process. The work is divided by pieces: in reductions the owner of a piece sums it, in
/// copies each receiver copies it.
class in_process_group : public std::enable_shared_from_this<in_process_group> {
 public:
  /// Creates a group of `size` >= 1 members, each of which joins once; the memory of all members is on `device`.
  /// `ranks`: the ranks that errors name, where they differ from the members' numbers in the group. If the arguments
  /// are invalid, every member that joins fails with the reason.
  static std::shared_ptr<in_process_group> make(uint32_t size, device::device_id device = {},
                                                std::vector<uint32_t> ranks = {});

  /// Makes `rank` < size a member. `wake` may be empty for a member that calls `advance` by itself. Members may post
  /// before all have joined. A rank outside the group, or one that has joined before, gets a communicator whose calls
  /// all fail (bad_input). Callable from any thread.
  std::unique_ptr<communicator> join(uint32_t rank, waker wake);

 private:
  friend class member_of<in_process_group>;
  using wakes = std::vector<std::pair<std::shared_ptr<const waker>, uint64_t>>;

  in_process_group(uint32_t size, device::device_id device, std::vector<uint32_t> ranks)
      : device_(device),
        wrong_(wrong_size(size, ranks)),
        rendezvous_(size, std::move(ranks)),
        wakers_(size),
        joined_(size, false) {}

  [[nodiscard]] uint32_t size() const { return rendezvous_.size(); }
  [[nodiscard]] std::vector<uint32_t> missing(uint32_t /*rank*/, uint64_t sequence) const {
    const std::lock_guard lock(mutex_);
    return rendezvous_.missing(sequence);
  }
  core::result<void> post(uint32_t rank, const request& r);
  core::result<progress> advance(uint32_t rank, uint64_t sequence);
  void abort(uint32_t rank, const core::error& why);
  void leave(uint32_t rank);

  /// Returns the wakers of all members except `rank`, to be called for operation `sequence`. Requires the lock.
  wakes all_but(uint32_t rank, uint64_t sequence) const;
  wakes end_with(uint32_t rank, const core::error& why);

  /// Does the work of members [first, last) on operation `m`, called by member `rank`. Requires that the lock is held
  /// and that the work of these members is marked as begun. Releases the lock for the work, then takes it and records
  /// the work as finished. When the function returns, the lock may be released.
  core::result<progress> move(std::unique_lock<std::mutex>& lock, posted_operation& m, uint32_t rank, uint32_t first,
                              uint32_t last);

  device::device_id device_;
  std::optional<core::error> wrong_;  ///< error that every joining member gets, if the arguments of `make` were invalid
  mutable std::mutex mutex_;
  std::condition_variable moved_;
  rendezvous rendezvous_;
  std::vector<std::shared_ptr<const waker>> wakers_;  ///< [rank]: function that wakes it; null: none
  std::vector<bool> joined_;                          ///< [rank]: true if the rank has joined the group
  uint32_t moving_ = 0;                               ///< number of calls of move() that copy or sum without the lock
  std::atomic<bool> stop_ = false;                    ///< true after a failure: copies in progress may end early
};

}  // namespace troupe::fabric
