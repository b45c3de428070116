// Computes learned pruning masks for one pipeline stage: makes the masks from trainable scores, and writes the
// gradients of the scores, which it computes from those of the masked weights. Owns the state between the instruction
// `compress` of a unit and the unit's backward; pruning_masks owns masks that do not change within a step.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "actors/hands/weights/bound_parameters.hpp"
#include "actors/hands/weights/weight_grids.hpp"
#include "actors/memory/pruning_masks.hpp"
#include "core/model_table.hpp"
#include "job/compression/compression.hpp"
#include "models/segment/segment.hpp"

namespace troupe::actors {

/// The learned pruning masks of one pipeline stage. Not thread-safe.
class learned_masks {
 public:
  learned_masks(std::shared_ptr<const job::chosen_compression> chosen, std::shared_ptr<const pruning_masks> others,
                std::shared_ptr<bound_parameters> parameters, std::shared_ptr<weight_grids> grids);

  /// True if some mask of the unit is learned.
  [[nodiscard]] bool learns(uint32_t unit) const { return learning_.contains(unit); }
  /// Begins a run on tensor rank `coordinate`, with the masks that are in effect after `updates` updates.
  void begin(uint64_t updates, uint32_t coordinate);
  /// Makes the masks of a unit from its scores; call when the unit's parameters are bound. Later calls in the same run
  /// do nothing, because scores do not change within a run. `agreed`: value ranges of all tensor ranks, as weight_grids
  /// reads them; a copy is stored for backward.
  void make(uint32_t unit, core::dtype type, std::span<const std::byte> agreed);
  /// Returns a bit for each element of the rank's share of the parameter, 1 if the element is not pruned, for a unit
  /// with learned masks; null: none is pruned.
  [[nodiscard]] const kernels::mask_bits* kept(uint32_t unit, uint32_t parameter) const;

  /// Called when backward has computed `gradient`, the gradient of parameter `q` before its mask: writes to `sink` the
  /// gradients of the mask scores that follow from it.
  void formed(uint32_t unit, uint32_t q, const at::Tensor& gradient, models::gradient_sink& sink) const;
  /// Writes zero gradients for the scores of modules whose pruning begins in a later step; call when segment `segment`
  /// of the unit has run backward.
  void ended(uint32_t unit, uint32_t segment, const core::model_table& table, models::gradient_sink& sink) const;

 private:
  using use = std::pair<uint32_t, uint32_t>;  // a use of a parameter: number of the unit, number of the parameter
  [[nodiscard]] const std::vector<job::pruned_module>& modules() const { return chosen_->pruned; }
  [[nodiscard]] const kernels::mask_bits& bits_of(size_t module) const;
  const std::byte* multiplied(const job::pruned_module& m, core::dtype type, uint64_t elements,
                              std::vector<std::byte>& gridded) const;
  template <class Real>
  void write(const job::pruned_module& m, const std::vector<Real>& scores, models::gradient_sink& sink) const;
  template <class Real>
  [[nodiscard]] std::vector<Real> of_weight(const job::pruned_module& m, const at::Tensor& gradient) const;
  template <class Real>
  [[nodiscard]] std::vector<Real> of_vector(const job::pruned_module& m, uint32_t q, const at::Tensor& gradient) const;

  std::shared_ptr<const job::chosen_compression> chosen_;
  std::shared_ptr<const pruning_masks> others_;
  std::shared_ptr<bound_parameters> parameters_;
  std::shared_ptr<weight_grids> grids_;
  // Indices of a unit's pruned modules, by unit; contains only units in which a module has a learned mask.
  std::map<uint32_t, std::vector<size_t>> learning_;
  std::map<size_t, kernels::mask_bits> bits_;  // learned masks, by pruned module
  std::map<use, kernels::mask_bits> together_;
  std::set<uint32_t> made_;                            // units whose masks were made in this run
  std::map<uint32_t, std::vector<std::byte>> agreed_;  // value ranges of all tensor ranks, by unit, for backward
  uint64_t updates_ = 0;
  uint32_t coordinate_ = 0;
};

}  // namespace troupe::actors
