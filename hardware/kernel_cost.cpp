#include "hardware/kernel_cost.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::hardware {
namespace {

/// Elements of one output tile of a product kernel.
constexpr double tile_elements = 128 * 256;
/// Rows and columns to which a product kernel pads its result.
constexpr double padded_to = 128;
/// Width of a head up to which the attention kernels keep their rate.
constexpr double narrow_head = 128;

double key_width(const workload& w) { return w.hidden * w.kv_heads / w.heads; }

/// Returns the output elements that a product loses in its last, partly filled wave.
double lost_elements(const card& on, const constants& c) { return c.product_lost_waves * on.sms * tile_elements; }

}  // namespace

double smooth_max_s(double a_s, double b_s, double sharpness) {
  constexpr double tiny = 1e-30;
  return std::pow(std::pow(std::max(a_s, tiny), sharpness) + std::pow(std::max(b_s, tiny), sharpness), 1 / sharpness);
}

double tokens_of(const workload& w) { return w.micro_batch * w.sequence / w.context; }

double step_product_s(double m, double n, double k, const workload& w, const card& on, const constants& c) {
  return 2 * (m * n + lost_elements(on, c)) * (k + c.product_fill_k_elements) /
         (on.peak_flops_per_s * w.product_rate_factor * c.product_share);
}

passes linear_s(double m, double n, double k, const workload& w, const card& on, const constants& c) {
  return {step_product_s(m, n, k, w, on, c), step_product_s(m, k, n, w, on, c) + step_product_s(k, n, m, w, on, c)};
}

layer_products layer_products_s(const workload& w, const card& on, const constants& c) {
  const double h = w.hidden, t = w.tensor, m = tokens_of(w);
  const double sizes[][2] = {{(h + 2 * key_width(w)) / t, h},         // queries, keys and values
                             {h, h / t},                              // output of attention
                             {w.ffn * (w.gated ? 2.0 : 1.0) / t, h},  // up, and gate
                             {h, w.ffn / t}};                         // down
  layer_products out;
  for (const auto& [n, k] : sizes) {
    const auto one = linear_s(m, n, k, w, on, c);
    out.all.forward_s += one.forward_s;
    out.all.backward_s += one.backward_s;
    out.last_s = one.forward_s;
  }
  return out;
}

passes layer_attention_s(const workload& w, const card& on, const constants& c) {
  const double scores = w.micro_batch * w.sequence * w.sequence / w.context * w.heads / w.tensor;
  const double flops = 4 * scores * (w.hidden / w.heads) * (w.causal_skip ? 0.5 : 1.0);
  const bool is_odd = !w.fused_attention && std::fmod(w.heads / w.tensor, 4.0) != 0;
  const double odd = is_odd ? c.odd_heads_factor : 1.0;
  const double work_s = odd * flops / (on.peak_flops_per_s * c.attention_share);
  const double scores_s = w.fused_attention ? 0.0 : odd * scores * c.softmax_bytes_per_score / on.memory_bytes_per_s;
  return {work_s + scores_s, (w.fused_attention ? 2.5 : 2.0) * work_s + scores_s};
}

passes layer_elementwise_s(const workload& w, const card& on, const constants& c) {
  const double whole = tokens_of(w) * w.hidden / (w.sequence_parallel ? w.tensor : 1.0);
  const double split = tokens_of(w) * w.ffn * (w.gated ? 1.5 : 1.0) / w.tensor;
  const double forward_s =
      (whole * c.elementwise_bytes_per_hidden + split * c.elementwise_bytes_per_ffn) / on.memory_bytes_per_s;
  return {forward_s, forward_s * c.elementwise_backward_factor};
}

double head_s(const workload& w, const card& on, const constants& c) {
  const double columns = w.vocabulary / w.tensor;
  const auto product = linear_s(tokens_of(w), columns, w.hidden, w, on, c);
  const double slower = w.tensor == 1 ? c.unsplit_vocabulary_factor : 1.0;
  return (product.forward_s + product.backward_s) * slower +
         tokens_of(w) * columns * c.loss_bytes_per_logit / on.memory_bytes_per_s;
}

double product_kernel_s(const product_shape& p, const card& on, const constants& c) {
  const auto padded = [](double x) { return std::ceil(x / padded_to) * padded_to; };
  const double flops = 2 * (padded(p.m) * padded(p.n) + lost_elements(on, c)) * (p.k + c.product_fill_k_elements);
  double factor = 1;
  if (p.layout == product_layout::nn) factor = c.nn_factor;
  if (p.layout == product_layout::nt) factor = p.out_bytes > 2 ? c.nt_fp32_factor : c.nt_bf16_factor;
  const double saved_flops = std::min(flops, c.burst_flops) * (1 - 1 / c.burst_factor);
  const double compute_s = (flops - saved_flops) / (on.peak_flops_per_s * c.product_share * factor);
  const double bytes = 2 * (p.m * p.k + p.k * p.n) + p.out_bytes * p.m * p.n * (p.accumulate ? 2.0 : 1.0);
  return std::max(compute_s, bytes / (on.memory_bytes_per_s * c.memory_share)) + c.launch_s;
}

double attention_kernel_s(const attention_shape& a, const card& on, const constants& c) {
  const double width = a.backward ? 3 * a.qk_width + 2 * a.v_width : a.qk_width + a.v_width;
  const double flops = a.batch * a.heads * a.sequence * a.sequence * width;
  const double share = a.backward ? c.attention_backward_share : c.attention_forward_share;
  const double wide = a.backward ? c.wide_head_backward_factor : c.wide_head_forward_factor;
  const double longest_s = a.sequence * (a.backward ? c.attention_backward_s_per_key : c.attention_forward_s_per_key);
  const double sharpness = a.backward ? c.attention_backward_sharpness : c.attention_forward_sharpness;
  return smooth_max_s(flops * (a.qk_width > narrow_head ? wide : 1.0) / (on.peak_flops_per_s * share), longest_s,
                      std::max(1.0, sharpness));
}

}  // namespace troupe::hardware
