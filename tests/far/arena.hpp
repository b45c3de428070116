// Owns memory that stands for a device's and for the host's. A touch from the wrong side ends the program with a report
// of who touched what.
//
// Memory of the device has two addresses. The one that take() returns can neither be read nor written, so host code
// that follows it faults; `for_device` returns the other one, for work of the device only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe::far {

enum class side : uint8_t {
  device,
  pinned,   ///< the host's memory that a device can reach
  pageable  ///< the host's memory that a device cannot reach
};

enum class filled : uint8_t { zeros, nans };

/// Allocates bytes at a multiple of 4096; ends the program if the arena is full. `give` frees them and fills them with
/// NaN patterns.
std::byte* take(side where, uint64_t bytes, filled with);
void give(side where, std::byte* at, uint64_t bytes);

/// Returns the address at which work of a device accesses the bytes at `at`; null for null. Ends the program, with a
/// report that names `work`, if a real device could not reach them: if they are neither the device's nor pinned.
std::byte* for_device(const void* at, const char* work);

/// Returns the kind of the memory at `at`. Memory that no device has allocated is pageable.
side side_of(const void* at);

/// Returns the address at which a copy accesses the bytes at `at`, which may be any memory of the process.
std::byte* for_copy(const void* at);

}  // namespace troupe::far
