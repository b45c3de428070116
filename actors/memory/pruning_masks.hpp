// The bit masks of a run's pruned weights, which all ranks of a process share. Owns which masks are in effect after how
// many updates, and the combination of several masks of one weight; the session makes and saves masks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "job/compression/compression.hpp"
#include "kernels/compress/weight_mask.hpp"

namespace troupe::actors {

/// [parameter]: bit for each element of the whole parameter, in memory order; 1 if no mask removes the element.
using masks_together = std::map<uint32_t, kernels::mask_bits>;

/// Clears in `into`, which has a bit for each element of the weight of `m` in memory order, the bits of the elements
/// that mask `bits` of `m` drops.
void and_mask(const job::pruned_module& m, const kernels::mask_bits& bits, kernels::mask_bits& into);
/// Clears in `into` the bits of those elements of the weight and the bias of `m` that mask `bits` of `m` drops.
void and_mask(const job::pruned_module& m, const kernels::mask_bits& bits, masks_together& into);
/// Clears in `into` elements of vector `q`, which has one element for each row of `m`: those of the rows that mask
/// `bits` of `m` drops.
void and_vector(const job::pruned_module& m, const kernels::mask_bits& bits, uint32_t q, masks_together& into);

/// Holds all masks and their combinations. Masks change only between runs; lanes read them during runs.
class pruning_masks {
 public:
  explicit pruning_masks(std::shared_ptr<const job::chosen_compression> chosen)
      : chosen_(std::move(chosen)), masks_(chosen_->pruned.size()) {}

  [[nodiscard]] const std::vector<job::pruned_module>& modules() const { return chosen_->pruned; }
  /// Returns the mask of module `i` of `modules()`: a bit for each of its scores.
  [[nodiscard]] const kernels::mask_bits& of(size_t i) const { return masks_[i]; }
  void set(size_t i, kernels::mask_bits bits);
  /// Puts into effect the masks of modules whose pruning has begun after `updates` updates, and no others; learned
  /// masks are left out (learned_masks.hpp).
  void begin(uint64_t updates);

  /// Returns a bit for each element of the rank's share of a parameter, in memory order: 1 if unit `unit` on tensor
  /// rank `coordinate` uses the element. Null: none is pruned.
  [[nodiscard]] const kernels::mask_bits* kept(uint32_t unit, uint32_t parameter, uint32_t coordinate) const;
  /// Returns the bytes of memory that all masks and their combinations occupy.
  [[nodiscard]] uint64_t bytes() const;

 private:
  using use = std::pair<uint32_t, uint32_t>;  // a use of a parameter: number of the unit, number of the parameter

  std::shared_ptr<const job::chosen_compression> chosen_;
  std::vector<kernels::mask_bits> masks_;  // [pruned module]: mask, with a bit for each of the module's scores
  /// [use of a parameter][tensor coordinate]: combined mask that is in effect; a parameter that is not split has one
  /// element.
  std::map<use, std::vector<kernels::mask_bits>> together_;
  uint64_t begun_after_ = 0;
  bool is_current_ = false;
};

}  // namespace troupe::actors
