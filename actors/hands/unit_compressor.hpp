// What a stage's units multiply with where they are compressed: their weights on grids and under masks, and the grids
// of their inputs, as the updates so far have left them. Owns how `survey` and `compress` are done; which modules are
// compressed is job/compression/compression.hpp's choice, and slots are the caller's.
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

/// Not thread-safe: one stage's own.
class unit_compressor {
 public:
  /// `seed`: of the noise that weights are rounded with.
  unit_compressor(std::shared_ptr<const job::chosen_compression> chosen, std::shared_ptr<const pruning_masks> masks,
                  std::shared_ptr<bound_parameters> parameters, uint64_t seed);

  /// A run begins.
  void begin(std::shared_ptr<step_context> context);

  /// The ranges of the unit's parameters that ranks of a tensor group share, as they are bound now, into this rank's
  /// part of `out`. `agreed`: all ranks' of the first time, where this is the second.
  void survey(const plan::instruction& x, std::span<std::byte> out, std::span<const std::byte> agreed);
  /// What the unit multiplies with, of its parameters as they are bound now. `agreed`: all ranks' ranges, where some
  /// are shared.
  void compress(const plan::instruction& x, std::span<std::byte> out, std::span<const std::byte> agreed);

  /// Elements of a unit's parameter that stay; null: all do.
  [[nodiscard]] const kernels::mask_bits* mask_of(uint32_t unit, uint32_t parameter) const;
  [[nodiscard]] const learned_masks& learned() const { return learned_; }
  /// [layer of the table]: what it makes of its input; null: nothing of any.
  [[nodiscard]] const std::vector<std::optional<models::input_rounding>>* input_grids() const {
    return input_grids_.empty() ? nullptr : &input_grids_;
  }

 private:
  using range = kernels::value_range<double>;  // of a group, as ranks of a tensor group tell each other
  [[nodiscard]] const plan::rank_plan& p() const { return context_->plan(); }
  void look_up_inputs();
  void take_ranges();

  std::shared_ptr<const job::chosen_compression> chosen_;
  std::shared_ptr<const pruning_masks> masks_;
  std::shared_ptr<bound_parameters> parameters_;
  std::shared_ptr<weight_grids> grids_;
  learned_masks learned_;
  std::shared_ptr<step_context> context_;
  std::shared_ptr<const program> program_;                          // of the run; the next belongs to its plan
  std::vector<std::optional<models::input_rounding>> input_grids_;  // [layer]; empty: none has any
};

}  // namespace troupe::actors
