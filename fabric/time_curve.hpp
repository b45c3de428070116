// Defines how long the operations of a simulated communicator take where no single link says it (linear_link.hpp):
// times at known sizes, for each kind of operation.
#pragma once

#include <cstdint>
#include <map>

#include "fabric/communicator.hpp"

namespace troupe::fabric {

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
