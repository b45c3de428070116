// Makes the masks of a term's pruned weights from the weights with which the run starts, or loads them from the
// checkpoint that the run resumes; keeps the scores of snip_momentum between steps. Owns which of the two, and at which
// updates masks change; kernels/compress/weight_mask.hpp owns the arithmetic.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "actors/memory/pruning_masks.hpp"
#include "checkpoint/native/mask_record.hpp"
#include "core/error.hpp"
#include "job/compression/compression.hpp"

namespace troupe::actors {

struct training_run;

class weight_pruner {
 public:
  /// Prunes weights of the current term of `run`, which must outlive this object.
  weight_pruner(training_run& run, const std::shared_ptr<const job::chosen_compression>& compression);

  /// Returns the masks of this process; null: nothing is pruned. Steps change which masks are in effect.
  [[nodiscard]] const std::shared_ptr<pruning_masks>& masks() const { return masks_; }
  /// Makes the masks from `saved`, and masks that `saved` lacks from the current weights. The leading process makes and
  /// sends them; others wait for them. Errors: mismatch for a saved mask of another size; those of reading weights.
  core::result<void> make_masks(const std::vector<checkpoint::mask_record>& saved);
  /// Returns the pruning masks and their scores as a checkpoint stores them.
  [[nodiscard]] std::vector<checkpoint::mask_record> saved_masks() const;

  /// begin_saliency and end_saliency surround a step with snip_momentum: they add |w g| to the scores, of the weights
  /// before the step and its gradients.
  core::result<void> begin_saliency();
  core::result<void> end_saliency();
  /// Makes the masks in effect those of the updates so far. Call before any run.
  void turn_masks();

 private:
  [[nodiscard]] core::result<std::vector<float>> whole_weight(uint32_t parameter) const;
  void tell_masks() const;

  training_run& run_;
  std::shared_ptr<pruning_masks> masks_;
  /// [pruned module]: scores by element as (out, in); empty with another pruning method
  std::vector<std::vector<float>> sums_;
  /// [pruned module]: weights by element as (out, in) at the begin of the current step
  std::vector<std::vector<float>> before_;
  std::optional<uint64_t> turned_;  ///< number of updates after which the masks were last computed
};

}  // namespace troupe::actors
