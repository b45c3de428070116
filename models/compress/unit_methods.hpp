// Post-training methods over a whole model: one unit after another, with the outputs of the units before. Owns what
// each method does with a unit, and which of its results are stored; leaves the arithmetic to gptq.hpp, refit.hpp and
// channel_scales.hpp.
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

/// Method by which the weights of blocks are quantised. The export rounds all other weights itself, embeddings with a
/// search.
enum class unit_method : uint8_t {
  importance,  ///< changes no weight; stores the mean of each column's squared inputs, for formats that search
  gptq,        ///< rounds with the inputs that the rounded units before produce, to the outputs of the original model
  awq,         ///< changes weights by AWQ's scales, with the inputs of the unrounded model; the export rounds
  smooth,      ///< changes weights by SmoothQuant's scales, with the inputs of the unrounded model; the export rounds
};

struct unit_method_options {
  unit_method method = unit_method::gptq;
  /// Returns the form in which a tensor of the source, given by its name, is stored; null if it is not changed.
  std::function<std::shared_ptr<const checkpoint::stored_form>(const std::string&)> form_of;
  gptq_options gptq{};
  /// Called with the number of finished steps and of all steps; returning false ends the work with error_kind::stopped.
  std::function<bool(uint64_t done, uint64_t steps)> progress{};
};

/// Applies the method of `options` to all weights, starting at the first step that the store does not have; commits
/// each step. Errors name the tensor.
core::result<void> choose_weights(const model_spec& spec, unit_walk& walk, checkpoint::weight_store& store,
                                  const unit_method_options& options);

}  // namespace troupe::models
