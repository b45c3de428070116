// Delivers messages in a simulated world: splits every mailbox into channels, one for each pair of sender and receiver,
// and a seed chooses which channel delivers next. Within a channel messages stay in order, as in production; between
// channels any order is possible. Time is virtual and advances only when nothing can be delivered.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "actors/messages.hpp"

namespace troupe::actors {

class sim_scheduler {
 public:
  /// `system` must have the scheduler policy "testing" and outlive this object. Each message takes between 0 and
  /// `latency_max`.
  sim_scheduler(caf::actor_system& system, uint64_t seed, std::chrono::nanoseconds latency_max);
  ~sim_scheduler();
  sim_scheduler(const sim_scheduler&) = delete;
  sim_scheduler& operator=(const sim_scheduler&) = delete;

  /// Delivers one message, or advances time to the next event. Returns false if there is no event, or none before
  /// `until_ns`.
  bool step(int64_t until_ns);
  /// Delivers all messages, regardless of their latency, but starts no timer.
  void drain();

  [[nodiscard]] int64_t now_ns() const;
  /// Delivers message `what` to lane `to` once `delay` has passed on the virtual clock.
  void post_later(std::chrono::nanoseconds delay, const lane_actor& to, wake what);
  /// Stops one channel that has something to deliver, drawn at random, for `delay`. Returns false if there is none.
  bool hold_any(std::chrono::nanoseconds delay);
  /// Delivers nothing to `whom` for `delay`; with `own_mail`, only its messages to itself are held back.
  void freeze(caf::actor_id whom, std::chrono::nanoseconds delay, bool own_mail = false);
  /// Simulates that the whole process is stopped: the virtual clock advances by `delay` while no message is delivered.
  void stop(std::chrono::nanoseconds delay);

  [[nodiscard]] uint64_t num_delivered() const;
  /// Returns a hash of (receiver, sender, type) of all deliveries in their order: equal hashes mean the same schedule.
  [[nodiscard]] uint64_t digest() const;

 private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::actors
