// What the members of one communicator tell each other when they live in several processes: who has arrived at which
// operation and with what, whose share is done, and why the communicator ended. Lies in memory that all of them map.
//
// No locks, and nothing to repair after a kill at any instruction: a member writes its own slots and its own line
// alone, and numbers in them only grow. The one word that all write, who failed first, is set by one exchange, behind
// the reason in that member's line. Knows neither threads nor addresses, wakes no one and moves no bytes: the group
// does.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "fabric/communicator.hpp"
#include "fabric/shared/address_space.hpp"

namespace troupe::fabric {

/// Members of a communicator, and how many operations a member may post beyond the oldest unfinished one: a power of
/// two.
struct board_shape {
  uint32_t members = 1;
  uint32_t operations = operations_in_flight_max;
};

/// Longer reasons are cut at their end. Enough for a sentence with two operations in it.
inline constexpr uint64_t reason_bytes_max = 1000;

/// What a member says of an operation. All but the locations is equal on all members: the digest tells, and the other
/// fields are for naming the difference.
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
  std::array<char, 128> what{};  ///< ends with 0; longer instructions are cut

  /// Of a request whose operands lie at `input` and `output`.
  static arrival of(const request& r, const location& input, const location& output);
  /// The request again, as far as it is said here. Valid while this object is.
  [[nodiscard]] request as_request(uint64_t sequence) const;
};

/// The first difference of what two members said; nothing if they mean the same operation.
std::optional<std::string> difference(const arrival& wanted, const arrival& got, uint64_t sequence);

/// Any thread of any process, one at a time for each member.
class board {
 public:
  /// Bytes that a board of this shape takes; zeros are a board that nobody has used.
  static uint64_t bytes_of(const board_shape& shape);

  /// Refuses (bad_input) memory that is too small or not at a multiple of 64, and shapes that no board has.
  static core::result<void> check(std::span<const std::byte> memory, const board_shape& shape);

  /// A view of it. `memory` and `shape`: what `check` takes.
  board(std::span<std::byte> memory, const board_shape& shape);

  [[nodiscard]] const board_shape& shape() const { return shape_; }

  /// `member` has arrived at `sequence`: its own next one, whose slot's last operation is done on all members.
  void arrive(uint32_t member, uint64_t sequence, const arrival& said);
  [[nodiscard]] bool has_arrived(uint32_t member, uint64_t sequence) const;
  [[nodiscard]] bool all_arrived(uint64_t sequence) const;
  /// Of a member that has arrived and not all of whose peers are done.
  [[nodiscard]] const arrival& said(uint32_t member, uint64_t sequence) const;

  void finish(uint32_t member, uint64_t sequence);  ///< `member` has done its share
  [[nodiscard]] bool has_finished(uint32_t member, uint64_t sequence) const;
  [[nodiscard]] bool all_finished(uint64_t sequence) const;

  /// Ends the communicator, unless it has ended, and returns why it ended: the first reason, for all members alike.
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
