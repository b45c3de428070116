// Measures bandwidth and delay between two hosts through the byte mover that a job's data uses. Owns the sizes of
// transfers and the clock. Each host has a meter; the measuring one controls the other by notes, short messages of the
// byte mover.
#pragma once

#include <cstdint>
#include <memory>

#include "core/error.hpp"
#include "fabric/wire/byte_mover.hpp"

namespace troupe::apps {

struct pair_speed {
  double delay_s = 0;  ///< half of the shortest round trip of a note (a short message) in seconds
  double bytes_per_s = 0;
};

class pair_meter {
 public:
  static constexpr uint64_t first_bytes = 256 << 10, bytes_max = uint64_t{64} << 20;
  static constexpr uint32_t round_trips = 30;
  /// Number of transfers of the final size; the fastest one counts, because other work may slow some of them.
  static constexpr uint32_t tries = 3;
  /// Duration in seconds from which on a transfer counts as a measurement; after a shorter transfer, the next one is
  /// larger.
  static constexpr double long_enough_s = 0.1;
  /// longest wait in nanoseconds for an answer of the other host's meter
  static constexpr int64_t limit_ns = 30'000'000'000;

  /// Registers this object as the receiver of the mover's notes; the mover must outlive it.
  explicit pair_meter(fabric::byte_mover& mover);
  ~pair_meter();
  pair_meter(const pair_meter&) = delete;
  pair_meter& operator=(const pair_meter&) = delete;

  /// Measures the network path from this process to the process with number `place`, which must have a pair_meter, too.
  /// Blocks; must not be called by two threads at once. Errors: peer_lost if the process is not connected, was lost or
  /// does not answer.
  core::result<pair_speed> measure(uint32_t place);
  /// Makes a waiting measure() fail because the host with number `place` is lost.
  void lose(uint32_t place, const core::error& why);

 private:
  struct state;

  fabric::byte_mover& mover_;
  std::shared_ptr<state> state_;  ///< state that callbacks of unfinished transfers use as well, and keep alive
};

}  // namespace troupe::apps
