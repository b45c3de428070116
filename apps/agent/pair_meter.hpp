// How fast bytes cross between two hosts, and how late: measured over the mover that a job's data uses. Owns the sizes
// and the clock; both ends have one, and the end that measures drives the other by notes.
#pragma once

#include <cstdint>
#include <memory>

#include "core/error.hpp"
#include "fabric/wire/byte_mover.hpp"

namespace troupe::apps {

struct pair_speed {
  double delay_s = 0;  ///< half of the shortest round trip of a note
  double bytes_per_s = 0;
};

class pair_meter {
 public:
  static constexpr uint64_t first_bytes = 256 << 10, bytes_max = uint64_t{64} << 20;
  static constexpr uint32_t round_trips = 30;
  static constexpr uint32_t tries = 3;  ///< of the last size: others of the machine are in the way of some
  /// A transfer that takes so long tells enough.
  static constexpr double long_enough_s = 0.1;
  static constexpr int64_t limit_ns = 30'000'000'000;  ///< for any answer of the other end

  /// Hears the mover's notes from now on; the mover lives as long.
  explicit pair_meter(fabric::byte_mover& mover);
  ~pair_meter();
  pair_meter(const pair_meter&) = delete;
  pair_meter& operator=(const pair_meter&) = delete;

  /// From here to `place`, which has a meter too. Waits; one at a time. Errors: peer_lost, where it is not connected,
  /// was lost or does not answer.
  core::result<pair_speed> measure(uint32_t place);
  /// The place is lost: who waits for it is told.
  void lose(uint32_t place, const core::error& why);

 private:
  struct state;

  fabric::byte_mover& mover_;
  std::shared_ptr<state> state_;  ///< transfers hold it
};

}  // namespace troupe::apps
