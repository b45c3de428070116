// Declares counters of the test program's heap, which the replaced operators new and delete of counted_memory.cpp
// update.
#pragma once

#include <atomic>
#include <cstddef>

namespace troupe::tests {

extern std::atomic<size_t> live_bytes;
extern std::atomic<size_t> peak_bytes;
extern std::atomic<size_t> asked_bytes;  ///< number of bytes ever allocated, including bytes that were freed

/// Largest ratio of the memory of a pickle's tree to the pickle's size, which docs/formats.md states.
inline constexpr size_t max_pickle_memory_factor = 256;

/// Measures the peak of the heap since the construction of the mark, beyond the heap's size at that time.
class memory_mark {
 public:
  memory_mark() : before_(live_bytes), asked_before_(asked_bytes) { peak_bytes = before_; }
  [[nodiscard]] size_t taken() const { return peak_bytes - before_; }
  /// Returns the bytes of all allocations since the construction of the mark. A large number reveals values that are
  /// copied repeatedly and freed each time.
  [[nodiscard]] size_t asked() const { return asked_bytes - asked_before_; }

 private:
  size_t before_, asked_before_;
};

}  // namespace troupe::tests
