// Counters of the test program's heap; the operators new and delete that safetensors_fuzz_test.cpp replaces update
// them.
#pragma once

#include <atomic>
#include <cstddef>

namespace troupe::tests {

extern std::atomic<size_t> live_bytes;
extern std::atomic<size_t> peak_bytes;
extern std::atomic<size_t> asked_bytes;  ///< bytes ever allocated, whether freed or not

/// Measures the peak of the heap since the construction of the mark, beyond the heap's size at that time.
class memory_mark {
 public:
  memory_mark() : before_(live_bytes), asked_before_(asked_bytes) { peak_bytes = before_; }
  [[nodiscard]] size_t taken() const { return peak_bytes - before_; }
  /// Bytes of all allocations since the construction of the mark; shows values that are copied again and again and
  /// freed each time.
  [[nodiscard]] size_t asked() const { return asked_bytes - asked_before_; }

 private:
  size_t before_, asked_before_;
};

}  // namespace troupe::tests
