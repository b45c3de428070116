// Estimates the offset of another process's clock from heartbeats in both directions. Each beat says when its sender
// received the last beat of the receiver, so the time between receiving and answering is subtracted from the round
// trip. Owns the arithmetic; leaves sending beats to the link. No clock is set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "cluster/messages.hpp"

namespace troupe::cluster {

struct clock_reading {    ///< measured offset of another clock
  int64_t offset_ns = 0;  ///< the other clock minus this process's clock
  int64_t error_ns = 0;   ///< largest possible error of the offset, however much the two directions differ in latency
};

class clock_offset {  ///< estimates the offset of one other process's clock
 public:
  /// Number of latest round trips whose times are stored.
  static constexpr size_t trips_max = 64;
  /// Largest drift between the two clocks that is assumed, in nanoseconds per second.
  static constexpr int64_t drift_ns_per_s = 50'000;

  /// Returns the heartbeat message to send at time `now_ns`.
  [[nodiscard]] beat next(int64_t now_ns) const { return {now_ns, received_ns_, of_ns_}; }
  void hear(const beat& b, int64_t now_ns);
  /// Returns the offset with the smallest error among the stored round trips; the error grows with a trip's age.
  /// Nothing before the first round trip.
  [[nodiscard]] std::optional<clock_reading> at(int64_t now_ns) const;

 private:
  struct trip {
    int64_t at_ns = 0;
    clock_reading said;
  };
  std::deque<trip> trips_;
  int64_t received_ns_ = 0, of_ns_ = 0;
};

}  // namespace troupe::cluster
