// Applies a post-training quantisation method to a whole model, one unit (embedding, block, head) after another; a
// unit's inputs are the outputs of the units before. Owns what each method does with a unit, and which of its results
// are stored; leaves the arithmetic to gptq.hpp, refit.hpp and channel_scales.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "checkpoint/convert/stored_form.hpp"
#include "checkpoint/convert/weight_store.hpp"
#include "core/error.hpp"
#include "models/compress/gptq.hpp"
#include "models/compress/unit_walk.hpp"

namespace troupe::models {

/// Method by which the weights of a model's blocks are prepared for quantisation. The export rounds all other weights
/// itself; embeddings with a search for the best scales.
enum class unit_method : uint8_t {
  importance,  ///< changes no weight; stores the mean of each column's squared inputs, which weights errors at export
  /// Rounds weights so that, after the rounded units before, outputs stay close to those of the unrounded model.
  gptq,
  awq,     ///< multiplies channels by AWQ's scales, computed from the unrounded model; the export rounds
  smooth,  ///< multiplies channels by SmoothQuant's scales, computed from the unrounded model; the export rounds
};

struct unit_method_options {
  unit_method method = unit_method::gptq;
  /// Returns the form (format, blocks) in which the export will store a tensor of the source, given by its name; null
  /// if the tensor is not rounded.
  std::function<std::shared_ptr<const checkpoint::stored_form>(const std::string&)> form_of;
  gptq_options gptq{};
  /// Called before each step with the number of finished steps and of all steps. If it returns false, the work ends
  /// with error_kind::stopped.
  std::function<bool(uint64_t done, uint64_t steps)> progress{};
};

/// Applies the method of `options` to all weights of the model. Begins at the first step that `store` does not have
/// yet, and commits each step to `store`, so that interrupted work can be resumed. Errors name the tensor.
core::result<void> choose_weights(const model_spec& spec, unit_walk& walk, checkpoint::weight_store& store,
                                  const unit_method_options& options);

}  // namespace troupe::models
