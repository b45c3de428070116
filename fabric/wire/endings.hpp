// How members of a communicator ended it, as all processes of a machine know it: each member says at most one ending,
// and endings come into force in one order. Lies in memory that those processes map; no locks, as in
// fabric/shared/board.hpp: a line has one writer, and the order only grows.
//
// An ending holds from a sequence on. A member that leaves has done all before it, and so can its peers: what they need
// of it is under way. So an operation fails with the first ending in force that reaches down to it, and which one that
// is never changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/error.hpp"

namespace troupe::fabric {

/// From where on, and why.
struct ending_said {
  uint64_t from = 0;  ///< the first sequence that fails
  core::error why;    ///< cut where it is too long (fabric/shared/board.hpp)
};

/// Any thread of any process; what one member says comes from one of them.
class endings {
 public:
  static uint64_t bytes_of(uint32_t members);

  /// A view. `memory`: bytes_of(members), zeros at first, at a multiple of 64.
  endings(std::span<std::byte> memory, uint32_t members);

  /// Keeps what `member` says, the first time; it is not in force by that.
  void say(uint32_t member, const ending_said& what);
  [[nodiscard]] std::optional<ending_said> said(uint32_t member) const;

  /// What `member` has said comes into force, behind all that is, unless it is there. Any process.
  void enforce(uint32_t member);
  /// Members whose endings are in force, in order: the n-th; nothing behind the last.
  [[nodiscard]] std::optional<uint32_t> in_force(uint32_t n) const;
  [[nodiscard]] bool is_in_force(uint32_t member) const;

  /// Why `sequence` fails, if it does.
  [[nodiscard]] std::optional<core::error> failure_of(uint64_t sequence) const;

 private:
  struct line;
  [[nodiscard]] line& line_of(uint32_t member) const;

  std::byte* memory_;
  uint32_t members_;
};

}  // namespace troupe::fabric
