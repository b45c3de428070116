// Owns the state that the members of one communicator share when they are in several processes: which member has posted
// which operation and with which request, which member has done its part of it, and why the communicator ended. Stored
// in memory that all of the processes map. Leaves threads, addresses, wakes and the movement of bytes to group.hpp.
//
// There are no locks, and a process killed at any instruction leaves nothing to repair: a member writes only its own
// slots and its own line (the reason why it ended the communicator), and numbers in them only grow. A single word is
// written by all members, the number of the member that failed first: one compare-and-exchange sets it, after the
// reason was written to that member's line.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/error.hpp"
#include "fabric/communicator.hpp"
#include "fabric/shared/address_space.hpp"

namespace troupe::fabric {

/// Size of a board: number of members of the communicator, and maximum number of operations (a power of two) that a
/// member may have posted and that are not done.
struct board_shape {
  uint32_t members = 1;
  uint32_t operations = operations_in_flight_max;
};

/// Largest length of the reason of a failure in bytes, enough for a sentence that names two operations; longer reasons
/// are cut at the end.
inline constexpr uint64_t reason_bytes_max = 1000;

/// The request of one member, as other processes see it. All fields but `input` and `output` must be equal on all
/// members: `digest` decides whether they are, and the other fields let an error name the difference.
struct arrival {
  location input, output;
  uint64_t digest = 0;
  uint64_t step = 0, num_pieces = 0;
  uint32_t communicator = 0;
  float input_scale = 1;
  operation op = operation::barrier;
  core::dtype input_type = core::dtype::f32, communication = core::dtype::f32, output_type = core::dtype::f32;
  bool accumulate = false;
  std::array<piece, 4> first_pieces{};
  std::array<char, 128> what{};  ///< name of the instruction, ends with 0; longer names are cut

  /// Returns `r` in the form in which other processes see it; its operands are at `input` and `output`.
  static arrival of(const request& r, const location& input, const location& output);
  /// Returns the request as far as this object stores it. The result refers to memory of this object.
  [[nodiscard]] request as_request(uint64_t sequence) const;
};

/// Returns the first difference between the requests that two members have posted; nothing if they mean the same
/// operation.
std::optional<std::string> difference(const arrival& wanted, const arrival& got, uint64_t sequence);

/// Reads and writes the state of a communicator in shared memory: the requests that members have posted, which members
/// have done their part of an operation, and the failure. Callable from any thread of any process, one at a time for
/// each member.
class board {
 public:
  /// Returns the size in bytes of a board for `shape`; a board that is all zeros is unused.
  static uint64_t bytes_of(const board_shape& shape);

  /// Refuses (bad_input) memory that is too small or not at a multiple of 64, and shapes without members or whose
  /// number of operations is not a power of two.
  static core::result<void> check(std::span<const std::byte> memory, const board_shape& shape);

  /// Creates a view of a board in `memory`. Requires that `check` accepts `memory` and `shape`.
  board(std::span<std::byte> memory, const board_shape& shape);

  [[nodiscard]] const board_shape& shape() const { return shape_; }

  /// Records that `member` has posted operation `sequence`, its next one. Requires that the previous operation in the
  /// same slot is done on all members.
  void arrive(uint32_t member, uint64_t sequence, const arrival& said);
  [[nodiscard]] bool has_arrived(uint32_t member, uint64_t sequence) const;
  [[nodiscard]] bool all_arrived(uint64_t sequence) const;
  /// Returns the request that `member` posted as operation `sequence`. Requires that `member` has posted it and that
  /// some member has not done its part of it: later the slot may be overwritten.
  [[nodiscard]] const arrival& said(uint32_t member, uint64_t sequence) const;

  void finish(uint32_t member, uint64_t sequence);  ///< records that `member` has done its part of `sequence`
  [[nodiscard]] bool has_finished(uint32_t member, uint64_t sequence) const;
  [[nodiscard]] bool all_finished(uint64_t sequence) const;

  /// Ends the communicator, unless it has ended, and returns why it ended: the first reason, equal for all members.
  core::error fail(uint32_t member, const core::error& why);
  [[nodiscard]] std::optional<core::error> failure() const;

 private:
  struct slot;
  struct line;
  struct head;
  [[nodiscard]] slot& at(uint32_t member, uint64_t sequence) const;
  [[nodiscard]] line& line_of(uint32_t member) const;
  [[nodiscard]] head& first() const;

  std::byte* memory_;
  board_shape shape_;
};

}  // namespace troupe::fabric
