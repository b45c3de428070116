// The numbers behind troupe::far::counted. Internal.
#pragma once

#include <atomic>
#include <cstdint>

namespace troupe::far {

struct counters {
  std::atomic<uint64_t> kernels{0}, torch{0}, copies{0}, uploads{0}, downloads{0}, items{0};
};
inline counters& counting() {
  static counters all;
  return all;
}

}  // namespace troupe::far
