// Owns memory that simulates a device's and the host's. An access from the wrong side ends the program with a report of
// who accessed what. Memory of the device has two addresses: the one that take() returns can neither be read nor
// written, so host code that uses it faults, and for_device() returns the other one, which only work of the device may
// use.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe::far {

enum class side : uint8_t {
  device,
  pinned,   ///< memory of the host that a device can access
  pageable  ///< memory of the host that a device cannot access
};

enum class filled : uint8_t { zeros, nans };

/// Allocates bytes at a multiple of 4096; ends the program if the arena is full. `give` frees them and overwrites them
/// with NaN patterns.
std::byte* take(side where, uint64_t bytes, filled with);
void give(side where, std::byte* at, uint64_t bytes);

/// Returns the address at which work of a device accesses the bytes at `at`; null for null. If a real device could not
/// access them, because they are neither the device's nor pinned, ends the program with a report that names `work`.
std::byte* for_device(const void* at, const char* work);

/// Returns the kind of the memory at `at`. Memory that no device has allocated is pageable.
side side_of(const void* at);

/// Returns the address at which a copy accesses the bytes at `at`, which may be any memory of the process.
std::byte* for_copy(const void* at);

}  // namespace troupe::far
