// The test program's heap, counted by the operators that safetensors_fuzz_test.cpp replaces.
#pragma once

#include <atomic>
#include <cstddef>

namespace troupe::tests {

extern std::atomic<size_t> live_bytes;
extern std::atomic<size_t> peak_bytes;
extern std::atomic<size_t> asked_bytes;  ///< ever allocated, whether freed or not

/// The peak of the heap since this was made, beyond its size then.
class memory_mark {
 public:
  memory_mark() : before_(live_bytes), asked_before_(asked_bytes) { peak_bytes = before_; }
  [[nodiscard]] size_t taken() const { return peak_bytes - before_; }
  /// Bytes of all allocations together, which shows values that are copied again and again and freed each time.
  [[nodiscard]] size_t asked() const { return asked_bytes - asked_before_; }

 private:
  size_t before_, asked_before_;
};

}  // namespace troupe::tests
