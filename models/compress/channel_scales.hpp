// Moves scales of channels from a weight into the layer or norm before it, so that rounding loses less; without
// rounding the model computes the same. Owns which layers can be scaled in this way, the choice of scales, and folding
// them in. Sources: Lin et al. 2023 (arXiv:2306.00978) and Xiao et al. 2022 (arXiv:2211.10438).
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

/// The channels between a layer's output and the next layers: parameters that produce them, and weights that read them.
struct scaled_channels {
  /// Parameter that produces the channels: a norm's weight, or the weight of a linear layer; `before_bias` is its bias.
  uint32_t before = 0;
  std::optional<uint32_t> before_bias{};
  bool is_norm = true;
  core::weight_layout before_layout = core::weight_layout::out_in;  ///< layout of `before`, if that is a linear layer
  uint64_t first_output = 0;                                        ///< number of the first output of `before` that is
                                                                    ///< a channel
  std::vector<uint32_t> weights{};                                  ///< weights that read the channels
  core::weight_layout layout = core::weight_layout::out_in;         ///< layout of `weights`
};

/// Returns the scalable channels of a segment, in order: after norms; from attention's values to its output layer, if
/// each head has its own values; from the multiplied part of a gated MLP to the MLP's last layer.
std::vector<scaled_channels> channels_of(const model_spec& spec, const core::model_table& table, uint32_t unit,
                                         uint32_t segment);

/// Function that returns the memory of a parameter; the memory may be read and changed.
using parameter_memory = std::function<at::Tensor(uint32_t parameter)>;
/// Returns the form in which a weight is stored; null if the weight is not changed.
using parameter_form = std::function<const checkpoint::stored_form*(uint32_t parameter)>;

/// Returns a contiguous copy of the weight as (out, in).
at::Tensor outputs_first(const at::Tensor& weight, core::weight_layout layout);

/// Returns mean |x|^a, with the a of a grid over [0, 1] that loses least of the outputs of these weights for `inputs`;
/// undefined if no scale is better than none. Errors: those of rounding.
core::result<at::Tensor> awq_scales(const scaled_channels& c, const input_sums& inputs, const parameter_memory& memory,
                                    const parameter_form& form);
/// Returns max |x|^½ / max |w|^½: inputs and weights each get half of the combined range.
at::Tensor smooth_scales(const scaled_channels& c, const input_sums& inputs, const parameter_memory& memory);

/// Multiplies the weights by `scales`, channel by channel, and divides the parameters before them by `scales`.
void fold(const scaled_channels& c, const at::Tensor& scales, const parameter_memory& memory);

}  // namespace troupe::models
