// Names bytes of memory that the processes of a machine share and that each maps at its own address, so that a name
// means the same byte in all processes. Owns no bytes: the caller keeps the segments mapped while an address space is
// used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/error.hpp"

namespace troupe::fabric {

/// A byte of shared memory: the number of a segment, and an offset in bytes within it. A segment has the same number in
/// all processes, which callers of `address_space::add` must ensure.
struct location {
  static constexpr uint32_t nowhere = ~uint32_t{0};  ///< the segment of an operand that an operation does not use
  uint32_t segment = nowhere;
  uint64_t offset = 0;
  friend bool operator==(const location&, const location&) = default;
};

/// Converts addresses of this process to locations and back, by a list of its segments. The list is complete before a
/// group uses the object, and unchanged from then on.
class address_space {
 public:
  /// Adds `bytes`, not empty, as segment `segment` of this process. Errors: bug, for a number or bytes that were added
  /// before.
  core::result<void> add(uint32_t segment, std::span<std::byte> bytes);

  /// Returns the location of `address`; nothing if it is in no segment. The location of null is `nowhere`.
  [[nodiscard]] std::optional<location> locate(const std::byte* address) const;

  /// Returns the address of `where` in this process; null for nowhere, and for a location in no segment of this
  /// process.
  [[nodiscard]] std::byte* at(const location& where) const;

 private:
  struct segment {
    uint32_t number;
    std::span<std::byte> bytes;
  };
  std::vector<segment> segments_;  // segments in the order of their addresses
};

}  // namespace troupe::fabric
