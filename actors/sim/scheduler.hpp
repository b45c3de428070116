// Delivers the messages between actors in a simulation: splits every mailbox into channels, one for each pair of sender
// and receiver, and lets a seed choose which channel delivers next. Within a channel messages stay in order, as in
// production; between channels any order is possible. Time is virtual: each delivery advances the clock by 1 ns, and
// waits advance it only when nothing can be delivered. With even messages no seed chooses: every message takes the same
// time, a delivery none, and the messages of one moment are delivered by their receivers' and senders' age, so that
// actors that do the same do it at the same nanosecond, however many there are.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "actors/messages.hpp"

namespace troupe::actors {

class sim_scheduler {
 public:
  /// `system` must have the scheduler policy "testing" and outlive this object. The delay of each message is drawn
  /// between 0 and `latency_max`; of `even` messages, it is half of that for each, and at least 1 ns.
  sim_scheduler(caf::actor_system& system, uint64_t seed, std::chrono::nanoseconds latency_max, bool even = false);
  ~sim_scheduler();
  sim_scheduler(const sim_scheduler&) = delete;
  sim_scheduler& operator=(const sim_scheduler&) = delete;

  /// Delivers one message, or advances the clock to the next event. Returns false if there is no further event, or none
  /// before `until_ns`.
  bool step(int64_t until_ns);
  /// Delivers all messages at once, regardless of their delay, and triggers no timer.
  void drain();

  [[nodiscard]] int64_t now_ns() const;
  /// Delivers message `what` to lane `to` once `delay` has passed on the virtual clock.
  void post_later(std::chrono::nanoseconds delay, const lane_actor& to, wake what);
  /// Holds back, for `delay`, the messages of one channel (one pair of sender and receiver) that is drawn at random.
  /// Returns false if no channel has a message.
  bool hold_any(std::chrono::nanoseconds delay);
  /// Holds back messages to the actor `whom` for `delay`; with `own_mail`, only its messages to itself.
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
