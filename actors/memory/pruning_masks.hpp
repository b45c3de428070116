// The masks of a run's pruned weights, which all ranks of a process share. Owns which masks are in effect after how
// many updates, and their combination; the session makes and saves masks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "job/compression/compression.hpp"
#include "kernels/compress/weight_mask.hpp"

namespace troupe::actors {

/// Bit masks of the elements that no mask removes, by parameter, in the order of the whole parameter.
using masks_together = std::map<uint32_t, kernels::mask_bits>;

/// Removes from `into`, a mask of a weight's elements in memory order, the elements that the mask of `m` drops.
void and_mask(const job::pruned_module& m, const kernels::mask_bits& bits, kernels::mask_bits& into);
/// Removes from `into` the elements of the weight and the bias of `m` that its mask drops.
void and_mask(const job::pruned_module& m, const kernels::mask_bits& bits, masks_together& into);
/// Removes from `into` the elements of vector `q`, which has one for each row of `m`, whose rows the mask of `m` drops.
void and_vector(const job::pruned_module& m, const kernels::mask_bits& bits, uint32_t q, masks_together& into);

/// The masks change only between runs; the lanes read them during runs.
class pruning_masks {
 public:
  explicit pruning_masks(std::shared_ptr<const job::chosen_compression> chosen)
      : chosen_(std::move(chosen)), masks_(chosen_->pruned.size()) {}

  [[nodiscard]] const std::vector<job::pruned_module>& modules() const { return chosen_->pruned; }
  /// Returns the mask of module `i` of `modules()`: a bit for each of its scores.
  [[nodiscard]] const kernels::mask_bits& of(size_t i) const { return masks_[i]; }
  void set(size_t i, kernels::mask_bits bits);
  /// Puts the masks into effect whose pruning has begun after `updates` updates, and no others.
  void begin(uint64_t updates);

  /// Returns the elements of a parameter that are not pruned, for unit `unit` on tensor rank `coordinate`: a bit for
  /// each element of the rank's share, in memory order; null: none is pruned.
  [[nodiscard]] const kernels::mask_bits* kept(uint32_t unit, uint32_t parameter, uint32_t coordinate) const;
  /// Returns the bytes of all masks, single and combined.
  [[nodiscard]] uint64_t bytes() const;

 private:
  using use = std::pair<uint32_t, uint32_t>;  // a use of a parameter: number of the unit, number of the parameter

  std::shared_ptr<const job::chosen_compression> chosen_;
  std::vector<kernels::mask_bits> masks_;  // masks of the modules' scores, by pruned module
  /// Combined masks that are in effect, by tensor coordinate; one element for a parameter that is not split.
  std::map<use, std::vector<kernels::mask_bits>> together_;
  uint64_t begun_after_ = 0;
  bool is_current_ = false;
};

}  // namespace troupe::actors
