// Masks that are learned, as one stage computes with them: made of the scores as they are bound, once for each use of a
// unit, and the scores' gradients, straight from those of the masks. Owns what lies between a unit's `compress` and its
// backward; masks that do not change in a step are pruning_masks'.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "actors/hands/bound_parameters.hpp"
#include "actors/hands/weight_grids.hpp"
#include "actors/memory/pruning_masks.hpp"
#include "core/model_table.hpp"
#include "job/compression/compression.hpp"
#include "models/segment/segment.hpp"

namespace troupe::actors {

/// Not thread-safe: one stage's own.
class learned_masks {
 public:
  learned_masks(std::shared_ptr<const job::chosen_compression> chosen, std::shared_ptr<const pruning_masks> others,
                std::shared_ptr<bound_parameters> parameters, std::shared_ptr<weight_grids> grids);

  /// Whether some mask of the unit is learned.
  [[nodiscard]] bool learns(uint32_t unit) const { return learning_.contains(unit); }
  /// A run begins, with what has begun after `updates`, on tensor rank `coordinate`.
  void begin(uint64_t updates, uint32_t coordinate);
  /// A unit is bound: its masks in this run, whose scores are the same at every use. `agreed`: as of weight_grids; kept
  /// for backward.
  void make(uint32_t unit, core::dtype type, std::span<const std::byte> agreed);
  /// As pruning_masks::kept(), of such a unit.
  [[nodiscard]] const kernels::mask_bits* kept(uint32_t unit, uint32_t parameter) const;

  /// The gradient of parameter `q` was formed, before its mask: gives those of the scores that it says something of to
  /// `sink`.
  void formed(uint32_t unit, uint32_t q, const at::Tensor& gradient, models::gradient_sink& sink) const;
  /// Segment `segment` of the unit has gone backward: scores whose masks have not begun get zeros.
  void ended(uint32_t unit, uint32_t segment, const core::model_table& table, models::gradient_sink& sink) const;

 private:
  using use = std::pair<uint32_t, uint32_t>;  // unit, parameter
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
  std::map<uint32_t, std::vector<size_t>> learning_;  // [unit]: its modules, if one of them learns
  std::map<size_t, kernels::mask_bits> bits_;         // [module]: of those that learn
  std::map<use, kernels::mask_bits> together_;
  std::set<uint32_t> made_;                            // units, in this run
  std::map<uint32_t, std::vector<std::byte>> agreed_;  // [unit]
  uint64_t updates_ = 0;
  uint32_t coordinate_ = 0;
};

}  // namespace troupe::actors
