// How another's clock stands to this one's, from beats both ways: each tells when it heard the other's last one, so
// that a round trip is known without the time for which either end held it. Owns the arithmetic alone; beats are the
// link's, and nobody's clock is set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "cluster/messages.hpp"

namespace troupe::cluster {

struct clock_reading {    ///< of another clock
  int64_t offset_ns = 0;  ///< the other's clock less this one's
  int64_t error_ns = 0;   ///< by which that may be wrong, however uneven the two ways are
};

class clock_offset {  ///< of one other
 public:
  /// Round trips that are remembered.
  static constexpr size_t trips_max = 64;
  /// By how much two clocks part, at most: nanoseconds of each second.
  static constexpr int64_t drift_ns_per_s = 50'000;

  /// What to say now.
  [[nodiscard]] beat next(int64_t now_ns) const { return {now_ns, heard_ns_, of_ns_}; }
  void hear(const beat& b, int64_t now_ns);
  /// By the shortest of the last round trips, older ones less sure; none yet: nothing.
  [[nodiscard]] std::optional<clock_reading> at(int64_t now_ns) const;

 private:
  struct trip {
    int64_t at_ns = 0;
    clock_reading said;
  };
  std::deque<trip> trips_;
  int64_t heard_ns_ = 0, of_ns_ = 0;
};

}  // namespace troupe::cluster
