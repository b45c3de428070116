// Collectives among processes of one machine: members read and write each other's memory, which all of them map, as
// threads of one process do. Owns one process's view of a communicator: its members, their unfinished operations, and
// the end of copies before a member ends. How a process is woken is the caller's.
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
#include "fabric/communicator.hpp"
#include "fabric/shared/address_space.hpp"
#include "fabric/shared/board.hpp"

namespace troupe::fabric {

/// Wakes the processes of other members: each then calls `look` on its group. Called from any thread, without locks;
/// it only tells. Rings may be lost in each other: one `look` after the last of them is enough.
using bell = std::function<void(uint32_t member)>;

/// One communicator, as this process has it. Every member does its own share, in its own process.
///
/// A process that is killed leaves its operations pending on all others, until one of them aborts: whoever supervises
/// knows of the death. Its memory must stay mapped until they have ended. Likewise a member's destructor waits for
/// copies of this process alone: those of others, which notice the end at their next chunk, touch what is theirs to
/// touch as long as its segments are not given to others.
class shared_group : public std::enable_shared_from_this<shared_group> {
 public:
  /// `memory`: the board, of which all processes have the same bytes (board.hpp), kept mapped by the caller, like the
  /// segments of `space`. `ranks`: the numbers that errors call members by, where those are others than their numbers
  /// here. A group that cannot be (too little memory, no address space, no bell) has only members that say so.
  static std::shared_ptr<shared_group> make(std::span<std::byte> memory, const board_shape& shape,
                                            std::shared_ptr<const address_space> space, bell ring,
                                            device::device_id device = {}, std::vector<uint32_t> ranks = {});

  /// Makes `rank` < members one of this process; `wake` may be empty for a member that calls `advance` by itself.
  /// Members may post before all have joined. Another rank, or one that has joined before, gets a communicator whose
  /// calls all fail (bad_input). Callable from any thread.
  std::unique_ptr<communicator> join(uint32_t rank, waker wake);

  /// Somebody has rung: wakes the members of this process that have something to do. Any thread.
  void look();

 private:
  class member;
  struct local;
  struct wakes {  ///< whom to tell, once the lock is given back
    std::vector<std::pair<std::shared_ptr<const waker>, uint64_t>> here;
    std::vector<uint32_t> elsewhere;
  };

  shared_group(const board& b, std::shared_ptr<const address_space> space, bell ring, device::device_id device,
               std::vector<uint32_t> ranks);

  core::result<void> post(uint32_t rank, const request& r);
  core::result<progress> advance(uint32_t rank, uint64_t sequence);
  void abort(uint32_t rank, const core::error& why);
  void leave(uint32_t rank);
  [[nodiscard]] std::vector<uint32_t> missing(uint64_t sequence) const;

  [[nodiscard]] std::string name_of(uint32_t rank) const;
  // With the lock held:
  core::result<void> book(uint32_t rank, const request& r);
  [[nodiscard]] uint64_t oldest_unfinished(const local& me) const;
  [[nodiscard]] core::result<void> agreed(uint32_t rank, uint64_t sequence) const;
  core::result<progress> finish(std::unique_lock<std::mutex>& lock, uint32_t rank, uint64_t sequence);
  [[nodiscard]] core::error lost(uint32_t rank) const;
  [[nodiscard]] wakes due() const;
  core::error end_with(std::unique_lock<std::mutex>& lock, uint32_t rank, const core::error& why);
  // Without it:
  void tell(const wakes& whom) const;

  std::optional<core::error> wrong_;  ///< why there can be no such group
  board board_;
  std::shared_ptr<const address_space> space_;
  bell ring_;
  device::device_id device_;
  std::vector<uint32_t> ranks_;
  mutable std::mutex mutex_;
  std::condition_variable moved_;
  std::map<uint32_t, local> here_;  ///< by rank: the members of this process
  uint32_t moving_ = 0;             ///< shares of this process that run without the lock
  std::atomic<bool> stop_ = false;  ///< there is a failure: copies may end early
};

}  // namespace troupe::fabric
