// Counts this thread's ATen operations while it lives: flops of the products, bytes left allocated.
#pragma once

#include <cstdint>
#include <memory>

namespace troupe::models {

/// One per thread at a time.
class operation_meter {
 public:
  operation_meter();
  ~operation_meter();
  operation_meter(const operation_meter&) = delete;
  operation_meter& operator=(const operation_meter&) = delete;

  /// Of matrix products, convolutions, recurrences and fused attention, outermost operations only.
  [[nodiscard]] double flops() const;
  /// Bytes allocated minus bytes freed since construction.
  [[nodiscard]] int64_t live_bytes() const;

 private:
  struct parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::models
