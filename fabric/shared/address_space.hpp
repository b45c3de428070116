// Memory that the processes of a machine share, each at an address of its own: names of places that mean the same in
// all of them. Owns no bytes; whoever maps a segment keeps it as long as this is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/error.hpp"

namespace troupe::fabric {

/// A byte of a segment. Segments are numbered by whoever hands them out, alike in all processes.
struct location {
  static constexpr uint32_t nowhere = ~uint32_t{0};  ///< the segment of an operand that an operation does not use
  uint32_t segment = nowhere;
  uint64_t offset = 0;
  friend bool operator==(const location&, const location&) = default;
};

class address_space {  ///< one process's; complete before a group uses it, unchanged from then on
 public:
  /// `bytes`, not empty, are segment `segment` in this process. Errors: bug, for a number or bytes that it has already.
  core::result<void> add(uint32_t segment, std::span<std::byte> bytes);

  /// Where `address` lies; nothing if in no segment. Null is `nowhere`.
  [[nodiscard]] std::optional<location> locate(const std::byte* address) const;

  /// The address of `where` in this process; null for nowhere, and for what lies in no segment of this process.
  [[nodiscard]] std::byte* at(const location& where) const;

 private:
  struct segment {
    uint32_t number;
    std::span<std::byte> bytes;
  };
  std::vector<segment> segments_;  // by address
};

}  // namespace troupe::fabric
