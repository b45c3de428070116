// Post-training methods over a whole model: unit after unit, with what the units before give. Owns what each method
// does with a unit, and which of its results go into the store; the arithmetic is gptq.hpp's, refit.hpp's and
// channel_scales.hpp's.
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

/// Of the weights of blocks; all others are rounded by the export, embeddings with a search.
enum class unit_method : uint8_t {
  importance,  ///< weights stay: the mean of each column's squared inputs, for formats that search
  gptq,        ///< with the inputs that the units before give when their weights are rounded, for the outputs of before
  awq,         ///< other values, with the inputs of the model as it is; rounding is the export's
  smooth,      ///< the same with SmoothQuant's scales
};

struct unit_method_options {
  unit_method method = unit_method::gptq;
  /// How a tensor of the source is stored, by its name there; null where it stays as it is.
  std::function<std::shared_ptr<const checkpoint::stored_form>(const std::string&)> form_of;
  gptq_options gptq{};
  /// Told of steps done, of all; false ends the work: error_kind::stopped.
  std::function<bool(uint64_t done, uint64_t steps)> progress{};
};

/// From the step on that the store has; each step is committed. Errors name the tensor.
core::result<void> choose_weights(const model_spec& spec, unit_walk& walk, checkpoint::weight_store& store,
                                  const unit_method_options& options);

}  // namespace troupe::models
