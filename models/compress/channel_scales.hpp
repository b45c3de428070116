// Scales of channels that move from a weight into what stands before it, so that rounding hurts less; without rounding
// the model computes the same. Owns which layers can be scaled so, the choice of scales, and folding them in. Sources:
// Lin et al. 2023 (arXiv:2306.00978) and Xiao et al. 2022 (arXiv:2211.10438).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "checkpoint/convert/stored_form.hpp"
#include "core/error.hpp"
#include "core/model_table.hpp"
#include "models/compress/input_statistics.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::models {

/// Channels between what gives them and the weights that take them.
struct scaled_channels {
  /// What gives them: elements of a norm's weight and bias, or outputs of a linear layer's.
  uint32_t before = 0;
  std::optional<uint32_t> before_bias{};
  bool is_norm = true;
  core::weight_layout before_layout = core::weight_layout::out_in;  ///< of a linear layer
  uint64_t first_output = 0;                                        ///< of a linear layer's, the channels' first
  std::vector<uint32_t> weights{};                                  ///< that take them
  core::weight_layout layout = core::weight_layout::out_in;         ///< of these
};

/// Those of a segment, in order: behind norms; from values to what mixes heads, where each head has its own; from the
/// part of a gated MLP that is multiplied to what ends it.
std::vector<scaled_channels> channels_of(const model_spec& spec, const core::model_table& table, uint32_t unit,
                                         uint32_t segment);

/// A parameter's memory, to be read and changed.
using parameter_memory = std::function<at::Tensor(uint32_t parameter)>;
/// How a weight is stored; null where it stays.
using parameter_form = std::function<const checkpoint::stored_form*(uint32_t parameter)>;

/// As (out, in), a copy that is contiguous.
at::Tensor outputs_first(const at::Tensor& weight, core::weight_layout layout);

/// mean |x|^a for the a, of a grid over [0, 1], that loses least of the outputs of `inputs` behind these weights;
/// undefined where no scale is better than none. Refused: what rounding refuses.
core::result<at::Tensor> awq_scales(const scaled_channels& c, const input_sums& inputs, const parameter_memory& memory,
                                    const parameter_form& form);
/// max |x|^½ / max |w|^½: inputs and weights share the range of both.
at::Tensor smooth_scales(const scaled_channels& c, const input_sums& inputs, const parameter_memory& memory);

/// Weights times `scales`, channel by channel, and what is before them divided by these.
void fold(const scaled_channels& c, const at::Tensor& scales, const parameter_memory& memory);

}  // namespace troupe::models
