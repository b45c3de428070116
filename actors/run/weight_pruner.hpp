// Makes the masks of a run's pruned weights: from the weights with which the run starts, or from the checkpoint that it
// resumes. Stores the scores of the method snip_momentum between steps. Owns at which updates masks change;
// kernels/compress/weight_mask.hpp owns the arithmetic.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "actors/memory/pruning_masks.hpp"
#include "core/error.hpp"
#include "formats/source/mask_record.hpp"
#include "job/compression/compression.hpp"

namespace troupe::actors {

struct training_run;

class weight_pruner {
 public:
  /// Prunes weights of the ranks of `run`, which must outlive this object.
  weight_pruner(training_run& run, const std::shared_ptr<const job::chosen_compression>& compression);

  /// Returns the masks of this process; null: nothing is pruned. Steps change which masks are in effect.
  [[nodiscard]] const std::shared_ptr<pruning_masks>& masks() const { return masks_; }
  /// Sets the masks from `saved`, the masks of a checkpoint, and computes masks that `saved` lacks from the current
  /// weights. The leading process does this and sends the masks to the others, which wait for them. Errors: mismatch
  /// for a saved mask of another size; those of reading weights.
  core::result<void> make_masks(const std::vector<formats::mask_record>& saved);
  /// Returns the pruning masks and their scores as a checkpoint stores them.
  [[nodiscard]] std::vector<formats::mask_record> saved_masks() const;

  /// begin_saliency() and end_saliency() are called before and after a step. For the method snip_momentum they add |w
  /// g| to the score of each element, where w is its weight before the step and g its mean gradient.
  core::result<void> begin_saliency();
  core::result<void> end_saliency();
  /// Puts into effect the masks that apply after the updates so far, after computing those that change at this update.
  /// Call before any run.
  void turn_masks();

 private:
  [[nodiscard]] core::result<std::vector<float>> whole_weight(uint32_t parameter) const;
  void tell_masks() const;

  training_run& run_;
  std::shared_ptr<pruning_masks> masks_;
  /// [pruned module]: score of each element of the weight, in the order (output row, input column); empty for other
  /// methods than snip_momentum
  std::vector<std::vector<float>> sums_;
  /// [pruned module]: weight before the current step, in the order (output row, input column); empty outside of a step
  std::vector<std::vector<float>> before_;
  std::optional<uint64_t> turned_;  ///< number of updates after which the masks were last computed
};

}  // namespace troupe::actors
