// Makes the simulated device's streams late during the lifetime of an object.
#pragma once

#include "tests/far/streams.hpp"

namespace troupe::far {

class late_device {
 public:
  explicit late_device(uint64_t seed) { be_late(seed); }
  ~late_device() { be_prompt(); }
  late_device(const late_device&) = delete;
  late_device& operator=(const late_device&) = delete;
};

}  // namespace troupe::far
