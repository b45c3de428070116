// Defines the counters that troupe::far::counted returns. Internal to tests/far.
#pragma once

#include <atomic>
#include <cstdint>

namespace troupe::far {

struct counters {
  std::atomic<uint64_t> kernels{0}, torch{0}, copies{0}, uploads{0}, downloads{0}, items{0}, waits{0}, compute_waits{0},
      bytes_up{0}, bytes_down{0}, unpinned{0};
};
/// True if the thread has called a matrix product, which only threads of compute lanes do.
inline thread_local bool computes = false;

inline counters& counting() {
  static counters all;
  return all;
}

}  // namespace troupe::far
