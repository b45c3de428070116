// Limits the number of records that the telemetry actor has not handled, because mailboxes are unbounded. The sender of
// a record first reserves one of a limited number of places, and the message owns that place until the record is
// handled or dropped.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

namespace troupe::actors {

/// Largest number of records that were sent and not handled; each keeps the measurements of its step in memory. Further
/// records are dropped and counted.
inline constexpr uint32_t record_queue_limit = 256;

/// Counts the records that one sender has sent and telemetry has not handled. One thread calls admit(); any thread may
/// release the place of a record.
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

/// Waits until `record`, a place of `queue`, is released, and returns true. Waits as long as the telemetry actor
/// handles other records meanwhile; returns false if it handles none for `patience`. `now` returns the time of a clock;
/// `pause` lets some time pass.
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
