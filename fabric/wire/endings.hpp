// Owns the statements (endings) by which members of a communicator end it, as all processes of a machine see them: each
// member states at most one ending, and endings come into force in one order. Stored in memory that those processes
// map; no locks, as in fabric/shared/board.hpp: a line has one writer, and the order only grows.
//
// An ending holds from a sequence on. A member that leaves has finished all operations before that sequence, and its
// peers can finish them as well: the bytes that they need from it have already left its memory. An operation therefore
// fails with the first ending in force whose start is at or before it, and that choice never changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/error.hpp"

namespace troupe::fabric {

/// Statement of a member that it ends the communicator: the first operation that fails, and the reason.
struct ending_said {
  uint64_t from = 0;  ///< sequence number of the first operation that fails
  core::error why;    ///< reason of the failure, cut at reason_bytes_max (fabric/shared/board.hpp)
};

/// View of the endings in shared memory. Callable from any thread of any process; all calls of `say` for one member
/// come from one process.
class endings {
 public:
  static uint64_t bytes_of(uint32_t members);

  /// Creates a view of `memory`: bytes_of(members) bytes, aligned to 64, filled with zeros before their first use.
  endings(std::span<std::byte> memory, uint32_t members);

  /// Stores that `member` ends the communicator; has no effect on operations until enforce(). Does nothing if the
  /// member has stated this before.
  void say(uint32_t member, const ending_said& what);
  [[nodiscard]] std::optional<ending_said> said(uint32_t member) const;

  /// Brings the stored ending of `member` into force after all endings in force, unless it already is. Callable from
  /// any process.
  void enforce(uint32_t member);
  /// Returns the member whose ending came into force as number `n`, counted from 0; nothing if there are fewer endings.
  [[nodiscard]] std::optional<uint32_t> in_force(uint32_t n) const;
  [[nodiscard]] bool is_in_force(uint32_t member) const;

  /// Returns the error with which operation `sequence` fails; nothing if it does not fail.
  [[nodiscard]] std::optional<core::error> failure_of(uint64_t sequence) const;

 private:
  struct line;
  [[nodiscard]] line& line_of(uint32_t member) const;

  std::byte* memory_;
  uint32_t members_;
};

}  // namespace troupe::fabric
