// The ends of a member's transfers, from when a mover's thread tells them until the member's own thread takes them.
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

/// What a transfer is to the member.
struct transfer_tag {
  enum class kind : uint8_t { send, landing, incoming, outgoing, result };
  uint64_t sequence = 0;
  kind what = kind::send;
  uint32_t peer = 0;   ///< the member at the other end
  uint64_t index = 0;  ///< among what is of its kind
};

/// Of one member.
class transfer_ends {
 public:
  /// `wake`: the member's; null for one that calls `advance` by itself.
  explicit transfer_ends(std::shared_ptr<const waker> wake) : wake_(std::move(wake)) {}

  struct entry {
    transfer_tag tag;
    core::result<void> how;
  };

  /// Any thread. Wakes the member for the operation, once until it takes what there is.
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
