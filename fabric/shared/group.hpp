// Implements collectives among processes of one machine: members read and write each other's memory, which all
// processes map, as threads of one process do. Owns one process's view of a communicator: its members, their unfinished
// operations, and the wait for running copies before a member ends. Leaves the way to wake a process to the caller.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device/device_id.hpp"
#include "fabric/member_of.hpp"
#include "fabric/shared/address_space.hpp"
#include "fabric/shared/board.hpp"

namespace troupe::fabric {

/// Wakes the process of another member, which then calls `look` on its group. Called from any thread, without locks; a
/// bell only sends a notification. Several rings may merge: one `look` after the last of them is enough.
using bell = std::function<void(uint32_t member)>;

/// One communicator, as seen by this process. Every member moves and adds its own part of the bytes, in its own
/// process.
///
/// A process that is killed leaves its operations pending on all other members until one of them aborts; the supervisor
/// of the processes detects the death. The memory of the killed process must stay mapped until all other members have
/// ended.
/// A member's destructor waits only for copies of this process. Copies of other processes, which notice the end at
/// their next chunk, may still touch this member's segments, so the segments must not be reused until those copies have
/// ended.
class shared_group : public std::enable_shared_from_this<shared_group> {
 public:
  /// Creates the group. `memory`: the board, the same bytes in all processes (board.hpp), which the caller keeps
  /// mapped, like the segments of `space`. `ranks`: the ranks that errors name, where they differ from the members'
  /// numbers in the group. If the arguments are invalid (too little memory, no address space, no bell), every member
  /// that joins fails with the reason.
  static std::shared_ptr<shared_group> make(std::span<std::byte> memory, const board_shape& shape,
                                            std::shared_ptr<const address_space> space, bell ring,
                                            device::device_id device = {}, std::vector<uint32_t> ranks = {});

  /// Makes `rank` < members a member in this process; `wake` may be empty for a member that calls `advance` by itself.
  /// Members may post before all have joined. A rank outside the group, or one that has joined before, gets a
  /// communicator whose calls all fail (bad_input). Callable from any thread.
  std::unique_ptr<communicator> join(uint32_t rank, waker wake);

  /// Called when another process has rung (bell), because members in this process may have something to do. Wakes the
  /// members that have. Callable from any thread.
  void look();

 private:
  friend class member_of<shared_group>;
  struct local;
  struct wakes {  ///< members to notify after the lock is released
    std::vector<std::pair<std::shared_ptr<const waker>, uint64_t>> here;
    std::vector<uint32_t> elsewhere;
  };

  shared_group(const board& b, std::shared_ptr<const address_space> space, bell ring, device::device_id device,
               std::vector<uint32_t> ranks);

  core::result<void> post(uint32_t rank, const request& r);
  core::result<progress> advance(uint32_t rank, uint64_t sequence);
  void abort(uint32_t rank, const core::error& why);
  void leave(uint32_t rank);
  [[nodiscard]] std::vector<uint32_t> missing(uint32_t rank, uint64_t sequence) const;
  [[nodiscard]] uint32_t size() const { return board_.shape().members; }

  [[nodiscard]] std::string name_of(uint32_t rank) const;
  // Callers of the functions from book() to end_with() hold mutex_; the functions with a parameter `lock` may release
  // it.
  core::result<void> book(uint32_t rank, const request& r);
  [[nodiscard]] uint64_t oldest_unfinished(const local& me) const;
  [[nodiscard]] core::result<void> agreed(uint32_t rank, uint64_t sequence) const;
  core::result<progress> finish(std::unique_lock<std::mutex>& lock, uint32_t rank, uint64_t sequence);
  [[nodiscard]] core::error lost(uint32_t rank) const;
  [[nodiscard]] wakes due() const;
  core::error end_with(std::unique_lock<std::mutex>& lock, uint32_t rank, const core::error& why);
  // The caller must not hold mutex_, because tell() calls wakers and rings the bell of other processes.
  void tell(const wakes& whom) const;

  std::optional<core::error> wrong_;  ///< error that every joining member gets, if the arguments of `make` were invalid
  board board_;
  std::shared_ptr<const address_space> space_;
  bell ring_;
  device::device_id device_;
  std::vector<uint32_t> ranks_;
  mutable std::mutex mutex_;
  std::condition_variable moved_;
  std::map<uint32_t, local> here_;  ///< [rank]: state of a member in this process
  uint32_t moving_ = 0;             ///< number of shares of this process that are being done without the lock
  std::atomic<bool> stop_ = false;  ///< true after a failure: copies in progress may end early
};

}  // namespace troupe::fabric
