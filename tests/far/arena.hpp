// Memory that plays a device's and the host's beside it. Owns the bytes, and what a touch from the wrong side leads to:
// a report of who touched what, and the end of the program.
//
// Memory of the device has two addresses. The one that is handed out can neither be read nor written, so whatever of
// the host follows it stops there; `for_device` gives the other, to work of the device alone.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe::far {

enum class side : uint8_t {
  device,
  pinned,   ///< the host's, which a device reaches
  pageable  ///< the host's, which it does not
};

enum class filled : uint8_t { zeros, nans };

/// At a multiple of 4096; ends the program where the arena is full. NaN patterns fill what was given back.
std::byte* take(side where, uint64_t bytes, filled with);
void give(side where, std::byte* at, uint64_t bytes);

/// Where work of a device finds the bytes at `at`; null for null. Ends the program, with a report that names `work`,
/// where a real device would not reach them: they are neither its own nor pinned.
std::byte* for_device(const void* at, const char* work);

/// Memory that no device has allocated is pageable.
side side_of(const void* at);

/// Where a copy finds them: any memory of the process will do.
std::byte* for_copy(const void* at);

}  // namespace troupe::far
