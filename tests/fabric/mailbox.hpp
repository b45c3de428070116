// Owns a thread's message queue, like an actor's mailbox, for the wake-up functions of tests and benchmarks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

namespace troupe::tests {

class mailbox {
 public:
  void push(uint64_t message) {
    {
      const std::lock_guard lock(mutex_);
      messages_.push_back(message);
    }
    arrived_.notify_one();
  }

  /// Waits for the next message and returns it; returns nothing after `limit`, which only a hung test reaches.
  std::optional<uint64_t> pop(std::chrono::seconds limit = std::chrono::seconds(60)) {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, limit, [this] { return !messages_.empty(); })) return std::nullopt;
    const uint64_t message = messages_.front();
    messages_.pop_front();
    return message;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<uint64_t> messages_;
};

}  // namespace troupe::tests
