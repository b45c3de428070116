// Defines how long the collectives of a simulated world take (modelled.hpp): by the link that they share, or by times
// at known sizes for each kind of operation.
#pragma once

#include <cstdint>
#include <map>

namespace troupe::fabric {

enum class operation : uint8_t;
struct request;

/// Linear model of a link. An operation takes latency + bytes / bandwidth after all members have arrived; its bytes
/// are the result of received_bytes() (layout.hpp).
struct linear_link {
  double latency_us = 10;
  double bytes_per_second = 10e9;
  [[nodiscard]] int64_t duration_ns(uint64_t bytes) const;
};

/// Times of one communicator's operations of one kind, by their bytes (received_bytes() in layout.hpp). Between two
/// known sizes, and above the largest one, the times are on the straight line through the nearest two; below the
/// smallest one they are that one's.
class time_curve {
 public:
  /// Adds a size. Of two times of one size, the longer one counts. Requires a time of at least 0.
  void add(uint64_t bytes, int64_t ns);
  /// Returns the time of an operation; 0 if no size is known.
  [[nodiscard]] int64_t duration_ns(uint64_t bytes) const;
  /// Lets every operation take `factor` times as long, and then `more_ns` more.
  void slow(double factor, int64_t more_ns);
  [[nodiscard]] const std::map<uint64_t, int64_t>& points() const { return ns_of_bytes_; }

 private:
  std::map<uint64_t, int64_t> ns_of_bytes_;
};

/// Times of one communicator's operations, by kind.
using operation_curves = std::map<operation, time_curve>;

/// Returns the time of an operation among `size` members. A kind without a curve, such as an operation that the vote
/// has emptied, takes the longest time of the other kinds.
int64_t duration_ns(const operation_curves& curves, const request& r, uint32_t size);

}  // namespace troupe::fabric
