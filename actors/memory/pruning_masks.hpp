// The masks of a run's pruned weights, which all ranks of a process share. Owns which masks act after how many updates
// and what they come to together; they are made and saved by the session.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "job/compression.hpp"
#include "kernels/compress/weight_mask.hpp"

namespace troupe::actors {

/// `into`, by element as the weight lies, loses what the mask of `m` drops.
void and_mask(const job::pruned_module& m, const kernels::mask_bits& bits, kernels::mask_bits& into);

/// Changed between runs alone; read by the lanes during one.
class pruning_masks {
 public:
  explicit pruning_masks(std::shared_ptr<const job::chosen_compression> chosen)
      : chosen_(std::move(chosen)), masks_(chosen_->pruned.size()) {}

  [[nodiscard]] const std::vector<job::pruned_module>& modules() const { return chosen_->pruned; }
  /// Of module `i` of these: a bit for each of its scores.
  [[nodiscard]] const kernels::mask_bits& of(size_t i) const { return masks_[i]; }
  void set(size_t i, kernels::mask_bits bits);
  /// From now on units multiply with what the masks leave that have begun after `updates`.
  void begin(uint64_t updates);

  /// What stays of a parameter as unit `unit` reads it, a bit for each element as they lie; null: all.
  [[nodiscard]] const kernels::mask_bits* kept(uint32_t unit, uint32_t parameter) const;
  /// Of all masks, together and apart.
  [[nodiscard]] uint64_t bytes() const;

 private:
  using use = std::pair<uint32_t, uint32_t>;  // unit, parameter
  kernels::mask_bits& together(use at, uint64_t elements);

  std::shared_ptr<const job::chosen_compression> chosen_;
  std::vector<kernels::mask_bits> masks_;       // [module]
  std::map<use, kernels::mask_bits> together_;  // of those that have begun
  uint64_t begun_after_ = 0;
  bool is_current_ = false;
};

}  // namespace troupe::actors
