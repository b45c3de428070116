// What the test program has on the heap, counted by the operators that safetensors_fuzz_test.cpp replaces.
#pragma once

#include <atomic>
#include <cstddef>

namespace troupe::tests {

extern std::atomic<size_t> live_bytes;
extern std::atomic<size_t> peak_bytes;

/// The most that was on the heap at once since this was made, beyond what was there then.
class memory_mark {
 public:
  memory_mark() : before_(live_bytes) { peak_bytes = before_; }
  [[nodiscard]] size_t taken() const { return peak_bytes - before_; }

 private:
  size_t before_;
};

}  // namespace troupe::tests
