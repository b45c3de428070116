// Owns the state of a communicator over several machines that the processes of one machine share, in memory that all of
// them map: which members have posted an operation and done their part of it, which members have ended the
// communicator, and how many bytes have been sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/math.hpp"
#include "fabric/shared/board.hpp"
#include "fabric/wire/endings.hpp"
#include "fabric/wire/homes.hpp"
#include "fabric/wire/sent_counts.hpp"

namespace troupe::fabric {

/// View of a machine's shared state. Callable from any thread of any process, within the limits of its parts. Arrivals
/// and endings of members of other machines are written by one process of this machine, which represents it
/// (homes::carrier).
struct machine_record {
  static uint64_t bytes_of(const board_shape& shape) {
    return board_bytes(shape) + core::round_up(endings::bytes_of(shape.members), 64) +
           sent_counts::bytes_of(shape.members);
  }

  /// Creates a view of `memory`: bytes_of(shape) bytes, aligned to 64, filled with zeros before their first use.
  machine_record(std::span<std::byte> memory, const board_shape& shape, const homes& where, uint32_t of_machine)
      : arrivals(memory, shape),
        ended(memory.subspan(board_bytes(shape)), shape.members),
        sent(memory.subspan(board_bytes(shape) + core::round_up(endings::bytes_of(shape.members), 64)), shape.members),
        first(where.first(of_machine)),
        count(where.count(of_machine)) {}

  [[nodiscard]] bool is_here(uint32_t member) const { return member - first < count; }
  /// True if all members of this machine have done their part of operation `sequence`: no process of this machine
  /// accesses the operation's memory any more.
  [[nodiscard]] bool is_done(uint64_t sequence) const {
    for (uint32_t m = first; m < first + count; ++m)
      if (!arrivals.has_finished(m, sequence)) return false;
    return true;
  }

  /// Requests that members of all machines have posted. Only for members of this machine, `arrivals` also records that
  /// they have done their part of an operation.
  board arrivals;
  endings ended;
  sent_counts sent;
  uint32_t first, count;  ///< first member and number of members on this machine

 private:
  static uint64_t board_bytes(const board_shape& shape) { return core::round_up(board::bytes_of(shape), 64); }
};

}  // namespace troupe::fabric
