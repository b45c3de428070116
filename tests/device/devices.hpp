// Lists the devices on which this suite runs. A backend adds its own devices here and must pass every case: the cases
// read and write device memory only through streams.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "device/memory.hpp"
#include "device/properties.hpp"
#include "device/stream.hpp"
#include "tests/device/fake_cuda.hpp"

namespace troupe::device::tests {

inline std::vector<device_id> devices() {
  provide_fake_cuda();
  return {{device_kind::cpu}, {device_kind::cuda}};
}

inline constexpr tier tiers[] = {tier::device, tier::huge, tier::pinned};

/// Calls `f` with every device.
void on_every_device(auto&& f) {
  for (const device_id d : devices()) BOOST_TEST_CONTEXT("device " << properties_of(d).name << " " << d.index) {
      f(d);
    }
}

inline memory taken(device_id device, tier where, uint64_t bytes) {
  auto made = memory::allocate(device, where, bytes);
  BOOST_REQUIRE_MESSAGE(made.has_value(), (made ? std::string() : made.error().text));
  return std::move(*made);
}

inline std::vector<std::byte> noise(uint64_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> out(bytes);
  for (auto& x : out) x = static_cast<std::byte>(random());
  return out;
}

/// Returns the first `bytes` bytes of `m` as they are now.
inline std::vector<std::byte> held(const memory& m, uint64_t bytes) {
  std::vector<std::byte> out(bytes, std::byte{0x5A});
  stream s(m.device());
  s.copy(out.data(), m.data(), bytes);
  s.finish();
  return out;
}

}  // namespace troupe::device::tests
