// Rounds weights of the units of a pipeline stage to quantization grids, for the instruction `compress` and again for
// the gradients of learned masks. Owns which grid is in effect after how many updates, and the lookup of the value
// ranges that tensor ranks share; does not decide masks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/step_context.hpp"
#include "job/compression/compression.hpp"

namespace troupe::actors {

/// Quantises the weights that the units of one pipeline stage multiply with. Not thread-safe.
class weight_grids {
 public:
  /// `seed`: seed of the random noise with which weights are rounded.
  weight_grids(std::shared_ptr<const job::chosen_compression> chosen, uint64_t seed)
      : chosen_(std::move(chosen)), seed_(seed) {}

  /// Prepares for a run; called before the other functions in each run.
  void begin(std::shared_ptr<step_context> context) { context_ = std::move(context); }

  /// True if unit `unit` multiplies with a quantised copy of the parameter: a grid is in effect after the updates so
  /// far.
  [[nodiscard]] bool changes(uint32_t unit, uint32_t parameter) const { return begun(unit, parameter) != nullptr; }
  /// Returns the number of scratch elements that put() needs in addition to the elements that it writes.
  [[nodiscard]] uint64_t room_elements(uint32_t unit, uint32_t parameter) const {
    return begun(unit, parameter)->use.room_elements;
  }
  /// Writes to `to` this rank's value ranges of the parameter at `from` whose quantization groups tensor ranks share,
  /// and returns their number; 0 if no grid is in effect or no group is shared. `agreed`: the ranges of all ranks if
  /// this is the second exchange of the step, else empty.
  uint64_t tell(uint32_t unit, uint32_t parameter, std::span<const std::byte> agreed, const std::byte* from,
                kernels::value_range<double>* to);
  /// Writes to `to` the parameter at `from` in the form in which unit `unit` multiplies with it, before masks are
  /// applied: rounded to its quantization grid, or unchanged if no grid is in effect. `agreed`: value ranges of the
  /// quantization groups that tensor ranks share, of all ranks. `room`: room_elements() scratch elements.
  void put(uint32_t unit, uint32_t parameter, std::span<const std::byte> agreed, const std::byte* from, std::byte* to,
           std::span<std::byte> room);

 private:
  using range = kernels::value_range<double>;
  [[nodiscard]] const plan::rank_plan& p() const { return context_->plan(); }
  /// Returns the compressed module of the parameter if its quantization has begun after the updates so far; null
  /// otherwise.
  [[nodiscard]] const job::compressed_module* begun(uint32_t unit, uint32_t parameter) const;
  void take_agreed(uint32_t unit, uint32_t parameter, std::span<const std::byte> agreed);

  std::shared_ptr<const job::chosen_compression> chosen_;
  uint64_t seed_;
  std::shared_ptr<step_context> context_;
  std::vector<range> ranges_;  // ranges of a parameter's quantization groups on all tensor-parallel ranks
};

}  // namespace troupe::actors
