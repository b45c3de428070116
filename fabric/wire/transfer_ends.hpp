// Stores the results of a member's transfers from the call of a mover's thread until the member's own thread takes
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "fabric/communicator.hpp"

namespace troupe::fabric {

/// Identifies the part of a member's work to which a transfer belongs.
struct transfer_tag {
  enum class kind : uint8_t { send, landing, incoming, outgoing, result };
  uint64_t sequence = 0;
  kind what = kind::send;
  uint32_t peer = 0;   ///< number of the member at the other end of the transfer
  uint64_t index = 0;  ///< index of the transfer among the operation's transfers of the same kind
};

/// Collects the results of one member's transfers. The threads of a byte_mover add a result with tell() when a transfer
/// has ended; the member's own thread removes all results with take().
class transfer_ends {
 public:
  /// Creates an empty list. `wake`: the member's waker; null for a member that calls `advance` by itself.
  explicit transfer_ends(std::shared_ptr<const waker> wake) : wake_(std::move(wake)) {}

  struct entry {
    transfer_tag tag;
    core::result<void> how;
  };

  /// Records the end of a transfer. Wakes the member for the operation, unless the member was woken for it since it
  /// last took the entries. Callable from any thread.
  void tell(const transfer_tag& tag, const core::result<void>& how) {
    {
      const std::lock_guard lock(mutex_);
      entries_.push_back({tag, how});
      if (!woken_.insert(tag.sequence).second) return;
    }
    if (wake_) (*wake_)(tag.sequence);
  }

  std::vector<entry> take() {
    const std::lock_guard lock(mutex_);
    woken_.clear();
    return std::exchange(entries_, {});
  }

 private:
  std::shared_ptr<const waker> wake_;
  std::mutex mutex_;
  std::vector<entry> entries_;
  std::set<uint64_t> woken_;
};

}  // namespace troupe::fabric
