// Defines the link that the collectives of a simulated world share (modelled.hpp).
#pragma once

#include <cstdint>

namespace troupe::fabric {

/// Linear model of a link. An operation takes latency + bytes / bandwidth after all members have arrived; its bytes
/// are the result of received_bytes() (layout.hpp).
struct linear_link {
  double latency_us = 10;
  double bytes_per_second = 10e9;
  [[nodiscard]] int64_t duration_ns(uint64_t bytes) const;
};

}  // namespace troupe::fabric
