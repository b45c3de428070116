// Rounds weights of a stage's units to their grids, for `compress` and again for the gradients of learned masks. Owns
// which grid is in effect, and the lookup of a tensor rank's ranges; does not decide masks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "actors/step_context.hpp"
#include "core/dtype.hpp"
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

  /// True if unit `unit` multiplies with the parameter on a grid.
  [[nodiscard]] bool changes(uint32_t unit, uint32_t parameter) const { return begun(unit, parameter) != nullptr; }
  /// Returns the number of scratch elements that put() needs in addition to the elements that it writes.
  [[nodiscard]] uint64_t room_elements(uint32_t unit, uint32_t parameter) const {
    return begun(unit, parameter)->use.room_elements;
  }
  /// Writes this rank's ranges of the parameter at `from`, whose groups tensor ranks share, to `to`, and returns their
  /// number; 0 if no grid is in effect or no group is shared. `agreed`: all ranks' ranges, if this is the second
  /// exchange; else empty.
  uint64_t tell(uint32_t unit, uint32_t parameter, std::span<const std::byte> agreed, const std::byte* from,
                kernels::value_range<double>* to);
  /// Writes to `to` the parameter at `from` as unit `unit` multiplies with it before masks: rounded to its grid, or
  /// unchanged if no grid is in effect. `agreed`: the ranges of the unit's shared groups, of all tensor ranks.
  void put(uint32_t unit, uint32_t parameter, std::span<const std::byte> agreed, const std::byte* from, std::byte* to,
           std::span<std::byte> room);

 private:
  using range = kernels::value_range<double>;
  [[nodiscard]] const plan::rank_plan& p() const { return context_->plan(); }
  /// Returns the module of the parameter if its grid is in effect; null otherwise.
  [[nodiscard]] const job::compressed_module* begun(uint32_t unit, uint32_t parameter) const;
  void take_agreed(uint32_t unit, uint32_t parameter, std::span<const std::byte> agreed);

  std::shared_ptr<const job::chosen_compression> chosen_;
  uint64_t seed_;
  std::shared_ptr<step_context> context_;
  std::vector<range> ranges_;  // ranges of a parameter's quantization groups on all tensor-parallel ranks
};

}  // namespace troupe::actors
