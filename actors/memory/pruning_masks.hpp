// The masks of a run's pruned weights, which all ranks of a process share. Owns which masks act after how many updates
// and what they come to together; they are made and saved by the session.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "job/compression/compression.hpp"
#include "kernels/compress/weight_mask.hpp"

namespace troupe::actors {

/// What masks leave of parameters, by element as the whole ones lie.
using masks_together = std::map<uint32_t, kernels::mask_bits>;

/// `into`, by element as the weight lies, loses what the mask of `m` drops.
void and_mask(const job::pruned_module& m, const kernels::mask_bits& bits, kernels::mask_bits& into);
/// The weight and the bias of `m` lose what its mask drops.
void and_mask(const job::pruned_module& m, const kernels::mask_bits& bits, masks_together& into);
/// And so does vector `q`, with an element for each row of `m`.
void and_vector(const job::pruned_module& m, const kernels::mask_bits& bits, uint32_t q, masks_together& into);

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

  /// What stays of a parameter as unit `unit` reads it on tensor rank `coordinate`, a bit for each element of its share
  /// as they lie; null: all.
  [[nodiscard]] const kernels::mask_bits* kept(uint32_t unit, uint32_t parameter, uint32_t coordinate) const;
  /// Of all masks, together and apart.
  [[nodiscard]] uint64_t bytes() const;

 private:
  using use = std::pair<uint32_t, uint32_t>;  // unit, parameter

  std::shared_ptr<const job::chosen_compression> chosen_;
  std::vector<kernels::mask_bits> masks_;  // [module]
  /// Of those that have begun, [tensor coordinate]; of a parameter that every rank has all of one.
  std::map<use, std::vector<kernels::mask_bits>> together_;
  uint64_t begun_after_ = 0;
  bool is_current_ = false;
};

}  // namespace troupe::actors
