// Computes the weights that the units of a pipeline stage multiply with if they are compressed (rounded to quantization
// grids, pruned by masks), and the grids of the units' inputs; the number of updates so far decides which compression
// applies. Owns how the instructions `survey` and `compress` are executed; job/compression/compression.hpp chooses the
// modules, and the caller owns the slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "actors/hands/weights/bound_parameters.hpp"
#include "actors/hands/weights/learned_masks.hpp"
#include "actors/hands/weights/weight_grids.hpp"
#include "actors/memory/pruning_masks.hpp"
#include "actors/step_context.hpp"
#include "job/compression/compression.hpp"
#include "models/segment/segment.hpp"

namespace troupe::actors {

/// Computes the compressed weights of the units of one pipeline stage. Not thread-safe.
class unit_compressor {
 public:
  /// `seed`: seed of the random noise with which weights are rounded.
  unit_compressor(std::shared_ptr<const job::chosen_compression> chosen, std::shared_ptr<const pruning_masks> masks,
                  std::shared_ptr<bound_parameters> parameters, uint64_t seed);

  /// Prepares for a run; called before the other functions in each run.
  void begin(std::shared_ptr<step_context> context);

  /// Executes `survey`: writes the value ranges of the unit's parameters that tensor-group ranks share, as the
  /// parameters are bound now, into this rank's part of `out`. `agreed`: ranges of all ranks from the first survey if
  /// this is the second of a step, else empty.
  void survey(const plan::instruction& x, std::span<std::byte> out, std::span<const std::byte> agreed);
  /// Executes `compress`: writes to `out` the weights that the unit multiplies with, computed from the parameters that
  /// are bound now. `agreed`: value ranges of all tensor ranks, if some are shared.
  void compress(const plan::instruction& x, std::span<std::byte> out, std::span<const std::byte> agreed);

  /// Returns the pruning mask of a unit's parameter; null: no element is pruned.
  [[nodiscard]] const kernels::mask_bits* mask_of(uint32_t unit, uint32_t parameter) const;
  [[nodiscard]] const learned_masks& learned() const { return learned_; }
  /// Returns the rounding of inputs, by layer of the table; an entry is empty if the layer does not round its input.
  /// Null: no layer does.
  [[nodiscard]] const std::vector<std::optional<models::input_rounding>>* input_grids() const {
    return input_grids_.empty() ? nullptr : &input_grids_;
  }

 private:
  using range = kernels::value_range<double>;  // value range of a quantization group, as tensor ranks exchange it
  [[nodiscard]] const plan::rank_plan& p() const { return context_->plan(); }
  void look_up_inputs();
  void take_ranges();

  std::shared_ptr<const job::chosen_compression> chosen_;
  std::shared_ptr<const pruning_masks> masks_;
  std::shared_ptr<bound_parameters> parameters_;
  std::shared_ptr<weight_grids> grids_;
  learned_masks learned_;
  std::shared_ptr<step_context> context_;
  std::shared_ptr<const program> program_;  // program of the current run; input_grids_ is computed from its plan
  // Rounding of inputs, by layer; empty: no layer rounds its input.
  std::vector<std::optional<models::input_rounding>> input_grids_;
};

}  // namespace troupe::actors
