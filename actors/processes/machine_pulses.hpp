// Shares the pulses (progress) of a term's ranks among all processes of a machine, in shared memory. Owns their layout
// there and in messages to other machines; silence.hpp owns the meaning of a pulse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "actors/silence.hpp"

namespace troupe::actors {

class machine_pulses {
 public:
  /// Returns the size in bytes of the shared memory for the pulses of `ranks` ranks. The memory must be zeroed at
  /// first: a pulse of zeros means that its rank has not reported progress yet.
  static uint64_t bytes_of(uint32_t ranks);
  /// `memory` has bytes_of(ranks) bytes at a multiple of 64; `owner` keeps it mapped.
  machine_pulses(std::byte* memory, uint32_t ranks, std::shared_ptr<void> owner);

  /// Makes `board` read the pulses of ranks in other processes, those for which `here` is false, from the shared
  /// memory.
  void show_on(pulse_board& board, const std::vector<bool>& here) const;
  /// Writes the pulses on `board` of this process's ranks, those for which `here` is true, into the shared memory.
  void write(const pulse_board& board, const std::vector<bool>& here);
  /// Returns the pulses of the ranks for which `here` is true, encoded as messages to another machine of at most
  /// `bytes_max` bytes each.
  [[nodiscard]] static std::vector<std::string> notes_of(const pulse_board& board, const std::vector<bool>& here,
                                                         size_t bytes_max);
  /// Writes the pulses in a message from another machine into the shared memory.
  void hear(std::string_view note);

 private:
  struct shown;
  [[nodiscard]] shown& at(uint32_t rank) const;

  std::byte* memory_;
  uint32_t ranks_;
  std::shared_ptr<void> owner_;
};

}  // namespace troupe::actors
