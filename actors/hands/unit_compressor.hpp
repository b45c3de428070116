// Computes the compressed weights that a stage's units multiply with (weights on grids and under masks) and the grids
// of their inputs, for the updates so far. Owns how `survey` and `compress` are done; job/compression/compression.hpp
// chooses the modules, and the caller owns the slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "actors/hands/bound_parameters.hpp"
#include "actors/hands/learned_masks.hpp"
#include "actors/hands/weight_grids.hpp"
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

  /// Writes the ranges of the unit's parameters that ranks of a tensor group share, as they are bound now, into this
  /// rank's part of `out`. `agreed`: all ranks' ranges of the first survey, if this is the second.
  void survey(const plan::instruction& x, std::span<std::byte> out, std::span<const std::byte> agreed);
  /// Writes the weights that the unit multiplies with to `out`, computed from its currently bound parameters. `agreed`:
  /// all ranks' ranges, if some are shared.
  void compress(const plan::instruction& x, std::span<std::byte> out, std::span<const std::byte> agreed);

  /// Returns the pruning mask of a unit's parameter; null: no element is pruned.
  [[nodiscard]] const kernels::mask_bits* mask_of(uint32_t unit, uint32_t parameter) const;
  [[nodiscard]] const learned_masks& learned() const { return learned_; }
  /// Returns the rounding of inputs by layer of the table, empty for layers that do not round; null: no layer rounds.
  [[nodiscard]] const std::vector<std::optional<models::input_rounding>>* input_grids() const {
    return input_grids_.empty() ? nullptr : &input_grids_;
  }

 private:
  using range = kernels::value_range<double>;  // range of a group, as ranks of a tensor group exchange it
  [[nodiscard]] const plan::rank_plan& p() const { return context_->plan(); }
  void look_up_inputs();
  void take_ranges();

  std::shared_ptr<const job::chosen_compression> chosen_;
  std::shared_ptr<const pruning_masks> masks_;
  std::shared_ptr<bound_parameters> parameters_;
  std::shared_ptr<weight_grids> grids_;
  learned_masks learned_;
  std::shared_ptr<step_context> context_;
  std::shared_ptr<const program> program_;  // program of the run; input_grids_ belongs to its plan
  // Rounding of inputs, by layer; empty: no layer rounds its input.
  std::vector<std::optional<models::input_rounding>> input_grids_;
};

}  // namespace troupe::actors
