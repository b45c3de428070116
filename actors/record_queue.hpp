// Limits the number of records that the telemetry actor has not handled, because mailboxes are unbounded: the sender of
// a record first reserves one of the queue's places, and the message owns this place until it is handled or dropped.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

namespace troupe::actors {

/// Largest number of unfinished records: each keeps its step's spans alive. Further records are dropped and counted.
inline constexpr uint32_t record_queue_limit = 256;

/// The limited number of records that one sender may have on the way. One thread calls `admit`; any thread may release
/// places.
class record_queue {
 public:
  using place = std::shared_ptr<const void>;

  /// Reserves a place for a record; returns null if the queue is full, and then counts the record as dropped.
  place admit() {
    if (taken_->load(std::memory_order_relaxed) >= record_queue_limit) {
      ++num_dropped_;
      return nullptr;
    }
    taken_->fetch_add(1, std::memory_order_relaxed);
    return {taken_.get(), [taken = taken_](const void*) { taken->fetch_sub(1, std::memory_order_relaxed); }};
  }
  [[nodiscard]] uint64_t num_dropped() const { return num_dropped_; }
  [[nodiscard]] uint32_t num_under_way() const { return taken_->load(std::memory_order_relaxed); }

 private:
  std::shared_ptr<std::atomic<uint32_t>> taken_ = std::make_shared<std::atomic<uint32_t>>(0);
  uint64_t num_dropped_ = 0;
};

/// Waits for a record of `queue`, and returns true if it was handled. Continues to wait while the writer handles one
/// record after the other; returns false if the writer handles none within `patience`. `now` is a clock, `pause` lets
/// some of its time pass.
template <class Now, class Pause>
bool wait_for_record(const std::weak_ptr<const void>& record, const record_queue& queue,
                     std::chrono::nanoseconds patience, Now now, Pause pause) {
  uint32_t under_way = queue.num_under_way();
  std::chrono::nanoseconds since = now();
  while (!record.expired()) {
    if (now() - since >= patience) return false;
    pause();
    if (const uint32_t left = queue.num_under_way(); left != under_way) {
      under_way = left;
      since = now();
    }
  }
  return true;
}

}  // namespace troupe::actors
