#include "models/compress/channel_scales.hpp"

#include <ATen/ops/abs.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/div.h>
#include <ATen/ops/max.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/min.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>

namespace troupe::models {
namespace {

using core::layer_kind;
using core::weight_layout;

constexpr int grid_steps = 20;  ///< number of steps of the grid of exponents in [0, 1] that AWQ tries
/// Lower bound of a scale, for channels whose values are nearly 0 in the calibration text.
constexpr double least_scale = 1e-4;
constexpr double smooth_share = 0.5;

/// Returns the squared error, summed over all inputs and outputs, that a change `delta` of a weight causes: the sum of
/// δ · products · δᵀ over its rows, where `products` is the sum of x xᵀ over the inputs x.
double lost(const at::Tensor& delta, const at::Tensor& products) {
  return at::mm(delta, products).mul_(delta).sum(at::kDouble).item<double>();
}

/// Returns the squared error of the outputs of all weights of `c` if each weight is multiplied by `scales`, rounded,
/// and divided by them again.
core::result<double> lost_with(const scaled_channels& c, const at::Tensor& scales, const input_sums& inputs,
                               const parameter_memory& memory, const parameter_form& form) {
  double out = 0;
  for (const uint32_t w : c.weights) {
    const auto* stored = form(w);
    if (stored == nullptr) continue;
    const at::Tensor plain = outputs_first(memory(w), c.layout), rounded = plain.mul(scales);
    TROUPE_TRY(stored->round({rounded.mutable_data_ptr<float>(), static_cast<size_t>(rounded.numel())}, {}));
    out += lost(at::Tensor(rounded).div_(scales).sub_(plain), inputs.products);
  }
  return out;
}

}  // namespace

at::Tensor outputs_first(const at::Tensor& weight, weight_layout layout) {
  return (layout == weight_layout::in_out ? weight.t() : weight).clone(at::MemoryFormat::Contiguous);
}

std::vector<scaled_channels> channels_of(const model_spec& spec, const core::model_table& table, uint32_t unit,
                                         uint32_t segment) {
  std::vector<scaled_channels> out;
  if (spec.parallel_residual) return out;
  const core::layer_info* norm = nullptr;
  const core::layer_info* attention = nullptr;
  const core::layer_info* activation = nullptr;
  std::vector<const core::layer_info*> before;  // linear layers that read the norm's output
  for (const auto& l : table.layers_of(unit, segment)) {
    // A norm after a linear layer does not produce that layer's input.
    if (l.kind == layer_kind::norm && before.empty()) norm = &l;
    if (l.kind == layer_kind::attention) attention = &l;
    if (l.kind == layer_kind::activation) activation = &l;
    if (l.kind != layer_kind::linear) continue;
    if (attention == nullptr && activation == nullptr) {
      before.push_back(&l);
      continue;
    }
    // This is the last linear layer of the segment. Its input channels are the outputs of `from`: attention's values,
    // or the values that a gate multiplies.
    const auto* from = before.back();
    const bool has_own_values = spec.heads == spec.kv_heads && spec.family->packed_as != families::packing::by_head;
    if (attention != nullptr ? !has_own_values : before.size() != 2) continue;
    out.push_back({.before = *from->weight,
                   .before_bias = from->bias,
                   .is_norm = false,
                   .before_layout = *from->layout,
                   .first_output = from->out - l.in,
                   .weights = {*l.weight},
                   .layout = *l.layout});
  }
  if (norm != nullptr && !before.empty()) {
    scaled_channels c{.before = *norm->weight,
                      .before_bias = norm->bias,
                      .norm_shift = spec.family->norm_shift,
                      .layout = *before.front()->layout};
    for (const auto* l : before) c.weights.push_back(*l->weight);
    out.insert(out.begin(), std::move(c));
  }
  return out;
}

core::result<at::Tensor> awq_scales(const scaled_channels& c, const input_sums& inputs, const parameter_memory& memory,
                                    const parameter_form& form) {
  const at::Tensor mean = inputs.magnitude.div(static_cast<double>(inputs.rows)).clamp_min_(least_scale);
  at::Tensor best;
  double least = 0;
  for (int i = 0; i <= grid_steps; ++i) {
    at::Tensor scales = mean.pow(static_cast<double>(i) / grid_steps);
    scales.div_(scales.max().mul(scales.min()).sqrt());
    TROUPE_ASSIGN(const auto loss, lost_with(c, scales, inputs, memory, form));
    if (i > 0 && !(loss < least)) continue;
    least = loss;
    best = i > 0 ? scales : at::Tensor();
  }
  return best;
}

at::Tensor smooth_scales(const scaled_channels& c, const input_sums& inputs, const parameter_memory& memory) {
  at::Tensor largest = at::zeros_like(inputs.largest);
  for (const uint32_t w : c.weights) largest = at::maximum(largest, outputs_first(memory(w), c.layout).abs().amax(0));
  return inputs.largest.clamp_min(least_scale)
      .pow(smooth_share)
      .div_(largest.clamp_min_(least_scale).pow_(1 - smooth_share))
      .clamp_min_(least_scale);
}

void fold(const scaled_channels& c, const at::Tensor& scales, const parameter_memory& memory) {
  for (const uint32_t w : c.weights)
    memory(w).mul_(c.layout == weight_layout::in_out ? scales.unsqueeze(1) : scales.unsqueeze(0));
  const auto first = static_cast<int64_t>(c.is_norm ? 0 : c.first_output);
  const at::Tensor before = memory(c.before);
  if (c.is_norm && c.norm_shift != 0)
    before.add_(c.norm_shift).div_(scales).sub_(c.norm_shift);
  else if (c.is_norm)
    before.div_(scales);
  else if (c.before_layout == weight_layout::in_out)
    before.narrow(1, first, scales.numel()).div_(scales.unsqueeze(0));
  else
    before.narrow(0, first, scales.numel()).div_(scales.unsqueeze(1));
  if (c.before_bias) memory(*c.before_bias).narrow(0, first, scales.numel()).div_(scales);
}

}  // namespace troupe::models
