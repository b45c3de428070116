// The signs of life of a term's ranks, where all processes of a machine see them: in memory that they share. Owns their
// form there and in notes to other machines; what a pulse means is silence.hpp's.
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
  /// Bytes for so many ranks; zeros are pulses that nobody has shown.
  static uint64_t bytes_of(uint32_t ranks);
  /// `memory`: as many, at a multiple of 64, kept mapped by `owner`.
  machine_pulses(std::byte* memory, uint32_t ranks, std::shared_ptr<void> owner);

  /// `board` sees those of ranks that are not `here`.
  void show_on(pulse_board& board, const std::vector<bool>& here) const;
  /// Writes those of ranks that are `here`.
  void write(const pulse_board& board, const std::vector<bool>& here);
  /// Those of ranks that are `here`, for another machine, in parts of at most `bytes_max`; and what it does with them.
  [[nodiscard]] static std::vector<std::string> notes_of(const pulse_board& board, const std::vector<bool>& here,
                                                         size_t bytes_max);
  void hear(std::string_view note);

 private:
  struct shown;
  [[nodiscard]] shown& at(uint32_t rank) const;

  std::byte* memory_;
  uint32_t ranks_;
  std::shared_ptr<void> owner_;
};

}  // namespace troupe::actors
