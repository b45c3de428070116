// Multiplies input channels of a weight by scales and divides the layer or norm that produces these channels by the
// same scales: the model computes the same, but rounding the weight loses less (AWQ, SmoothQuant). Owns which layers
// can be scaled in this way, the choice of scales, and their application. Sources: Lin et al. 2023 (arXiv:2306.00978)
// and Xiao et al. 2022 (arXiv:2211.10438).
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

/// Channels that one layer produces and other layers read: the parameters on both sides, by their numbers in the
/// model's table.
struct scaled_channels {
  /// Parameter that produces the channels: a norm's weight, or the weight of a linear layer; `before_bias` is its bias.
  uint32_t before = 0;
  std::optional<uint32_t> before_bias{};
  bool is_norm = true;
  float norm_shift = 0;  ///< number that a norm adds to its weights (families::family::norm_shift)
  /// Layout of the weight `before`, if a linear layer produces the channels.
  core::weight_layout before_layout = core::weight_layout::out_in;
  uint64_t first_output = 0;        ///< index of the first channel among the outputs of `before`
  std::vector<uint32_t> weights{};  ///< weights that read the channels
  core::weight_layout layout = core::weight_layout::out_in;  ///< layout of each of `weights`
};

/// Returns the channels of a segment that can be scaled, in order of computation: the channels of a norm's output;
/// those between attention's values and its output layer, if each query head has its own values; those between the
/// values that a gate multiplies and the MLP's last layer. Returns none for a segment that computes attention and an
/// MLP together.
std::vector<scaled_channels> channels_of(const model_spec& spec, const core::model_table& table, uint32_t unit,
                                         uint32_t segment);

/// Function that returns the tensor of a parameter, which may be read and changed in place.
using parameter_memory = std::function<at::Tensor(uint32_t parameter)>;
/// Function that returns the form (blocks, codes) in which the export will store a weight; null if the weight is not
/// rounded.
using parameter_form = std::function<const checkpoint::stored_form*(uint32_t parameter)>;

/// Returns a contiguous copy of the weight as (out, in).
at::Tensor outputs_first(const at::Tensor& weight, core::weight_layout layout);

/// Returns AWQ's scales, (mean |x|)^a for each channel: the exponent a is that of a grid over [0, 1] with which
/// rounding the weights of `c` changes their outputs for `inputs` least. Undefined if no exponent is better than no
/// scales. Errors: those of rounding.
core::result<at::Tensor> awq_scales(const scaled_channels& c, const input_sums& inputs, const parameter_memory& memory,
                                    const parameter_form& form);
/// Returns SmoothQuant's scales, (max |x|)^½ / (max |w|)^½ for each channel, so that inputs x and weights w get equal
/// parts of their combined range.
at::Tensor smooth_scales(const scaled_channels& c, const input_sums& inputs, const parameter_memory& memory);

/// Multiplies `c.weights` by `scales`, channel by channel, and divides the parameters that produce the channels by
/// `scales`.
void fold(const scaled_channels& c, const at::Tensor& scales, const parameter_memory& memory);

}  // namespace troupe::models
