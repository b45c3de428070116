// What the test program has on the heap, counted by the operators that safetensors_fuzz_test.cpp replaces.
#pragma once

#include <atomic>
#include <cstddef>

namespace troupe::tests {

extern std::atomic<size_t> live_bytes;
extern std::atomic<size_t> peak_bytes;
extern std::atomic<size_t> asked_bytes;  ///< ever, whatever was given back

/// The most that was on the heap at once since this was made, beyond what was there then.
class memory_mark {
 public:
  memory_mark() : before_(live_bytes), asked_before_(asked_bytes) { peak_bytes = before_; }
  [[nodiscard]] size_t taken() const { return peak_bytes - before_; }
  /// Of all allocations together: who copies one value again and again gives it back each time, and shows here.
  [[nodiscard]] size_t asked() const { return asked_bytes - asked_before_; }

 private:
  size_t before_, asked_before_;
};

}  // namespace troupe::tests
