// Counts the ATen operations of one thread: flops of matrix products and similar operations, and bytes that stay
// allocated.
#pragma once

#include <cstdint>
#include <memory>

namespace troupe::models {

/// Counts flops and allocated bytes of Torch's operations on this thread while it exists; at most one object per thread
/// at a time.
class operation_meter {
 public:
  operation_meter();
  ~operation_meter();
  operation_meter(const operation_meter&) = delete;
  operation_meter& operator=(const operation_meter&) = delete;

  /// Returns the flops so far of matrix products, convolutions, recurrences and fused attention; an operation that
  /// another counted operation calls is not counted again.
  [[nodiscard]] double flops() const;
  /// Returns the bytes allocated minus the bytes freed since construction.
  [[nodiscard]] int64_t live_bytes() const;

 private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::models
