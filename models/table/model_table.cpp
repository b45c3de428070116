// The plain table of a model: names, shapes, initial values, units, segments and their costs. No Torch here.
#include <cmath>
#include <utility>

#include "models/table/model_spec.hpp"

namespace troupe::models {
namespace {

using core::initial_value;
using core::model_table;
using core::segment_info;
using core::unit_info;

constexpr double flops_per_multiply_add = 2.0;

/// Adds parameters in Hugging Face's order and remembers which segment wants them.
class table_writer {
 public:
  table_writer(model_table& table, std::string prefix, double initializer_range)
      : table_(table), prefix_(std::move(prefix)), range_(static_cast<float>(initializer_range)) {}

  uint32_t add(const std::string& name, std::vector<int64_t> shape, initial_value init, float std, bool decay) {
    table_.parameters.push_back({prefix_ + name, std::move(shape), init, std, decay});
    return static_cast<uint32_t>(table_.parameters.size() - 1);
  }
  uint32_t matrix(const std::string& name, uint32_t rows, uint32_t columns) {
    return add(name, {rows, columns}, initial_value::normal, range_, true);
  }
  uint32_t matrix(const std::string& name, uint32_t rows, uint32_t columns, float std) {
    return add(name, {rows, columns}, initial_value::normal, std, true);
  }
  uint32_t bias(const std::string& name, uint32_t n) { return add(name, {n}, initial_value::zeros, 0, false); }
  uint32_t norm_weight(const std::string& name, uint32_t n) { return add(name, {n}, initial_value::ones, 0, false); }

 private:
  model_table& table_;
  std::string prefix_;
  float range_;
};

/// Everything a segment's size depends on.
struct extent {
  double tokens, columns;
  uint64_t element_bytes;
  [[nodiscard]] double product(double in, double out) const { return flops_per_multiply_add * tokens * in * out; }
  [[nodiscard]] uint64_t activations(double per_token) const {
    return static_cast<uint64_t>(tokens * per_token) * element_bytes;
  }
  /// Token numbers kept for backward.
  [[nodiscard]] uint64_t numbers(double per_token) const {
    return static_cast<uint64_t>(tokens * per_token) * sizeof(int64_t);
  }
};

/// Scores and weighted sums of causal attention: each token looks at half of the columns on average.
double attention_flops(const model_spec& s, const extent& e) {
  return 2 * flops_per_multiply_add * e.tokens * (e.columns + 1) / 2 * s.heads * s.head_width;
}

/// What backward of an attention segment needs: input (the norm is made again), q, k, v, mixed heads.
uint64_t attention_saved(const model_spec& s, const extent& e) {
  const double q = double{1} * s.heads * s.head_width, kv = double{2} * s.kv_heads * s.head_width;
  return e.activations(s.width + 2 * q + kv);
}

void finish_head(const model_spec& s, const extent& e, segment_info& head) {
  head.forward_flops = e.product(s.width, s.vocabulary);
  head.saved_bytes = e.activations(double{1} * s.width + s.vocabulary) + e.numbers(1);
}

void set_inputs(const model_spec& s, const extent& e, model_table& table) {
  for (size_t u = 1; u < table.units.size(); ++u) table.units[u].input_bytes = e.activations(s.width);
}

unit_info unit_of(std::string name, std::vector<segment_info> segments) {
  unit_info unit{std::move(name), {}, std::move(segments)};
  for (const auto& segment : unit.segments)
    unit.parameters.insert(unit.parameters.end(), segment.parameters.begin(), segment.parameters.end());
  return unit;
}

model_table gpt2_table(const model_spec& s, const extent& e) {
  model_table table;
  table_writer w(table, "transformer.", s.initializer_range);
  // Residual projections start smaller, by the number of residual additions (GPT-2's paper, section 2.3).
  const auto residual_std = static_cast<float>(s.initializer_range / std::sqrt(2.0 * s.layers));
  const uint32_t wte = w.matrix("wte.weight", s.vocabulary, s.width);
  const uint32_t wpe = w.matrix("wpe.weight", s.positions, s.width);
  table.units.push_back(unit_of("embedding", {{"embedding", {wte, wpe}, 0, e.numbers(1)}}));
  for (uint32_t layer = 0; layer < s.layers; ++layer) {
    const std::string h = "h." + std::to_string(layer) + ".";
    segment_info attention{"attention", {}, 0, attention_saved(s, e)};
    attention.parameters = {w.norm_weight(h + "ln_1.weight", s.width),
                            w.bias(h + "ln_1.bias", s.width),
                            w.matrix(h + "attn.c_attn.weight", s.width, 3 * s.width),
                            w.bias(h + "attn.c_attn.bias", 3 * s.width),
                            w.matrix(h + "attn.c_proj.weight", s.width, s.width, residual_std),
                            w.bias(h + "attn.c_proj.bias", s.width)};
    attention.forward_flops = e.product(s.width, 4.0 * s.width) + attention_flops(s, e);
    const double kept = s.act == activation::gelu_tanh ? 1 : 2;  // what is activated; another activation's output too
    segment_info mlp{"mlp", {}, 0, e.activations(s.width + kept * s.inner)};
    mlp.parameters = {w.norm_weight(h + "ln_2.weight", s.width),
                      w.bias(h + "ln_2.bias", s.width),
                      w.matrix(h + "mlp.c_fc.weight", s.width, s.inner),
                      w.bias(h + "mlp.c_fc.bias", s.inner),
                      w.matrix(h + "mlp.c_proj.weight", s.inner, s.width, residual_std),
                      w.bias(h + "mlp.c_proj.bias", s.width)};
    mlp.forward_flops = e.product(s.width, 2.0 * s.inner);
    table.units.push_back(unit_of("block " + std::to_string(layer), {std::move(attention), std::move(mlp)}));
  }
  segment_info head{"head", {w.norm_weight("ln_f.weight", s.width), w.bias("ln_f.bias", s.width)}, 0, 0};
  head.parameters.push_back(
      s.tied ? wte : table_writer(table, "", s.initializer_range).matrix("lm_head.weight", s.vocabulary, s.width));
  finish_head(s, e, head);
  table.units.push_back(unit_of("head", {std::move(head)}));
  return table;
}

model_table llama_table(const model_spec& s, const extent& e) {
  model_table table;
  table_writer w(table, "model.", s.initializer_range);
  const uint32_t q_width = s.heads * s.head_width, kv_width = s.kv_heads * s.head_width;
  const uint32_t tokens = w.matrix("embed_tokens.weight", s.vocabulary, s.width);
  table.units.push_back(unit_of("embedding", {{"embedding", {tokens}, 0, e.numbers(1)}}));
  for (uint32_t layer = 0; layer < s.layers; ++layer) {
    const std::string l = "layers." + std::to_string(layer) + ".";
    const auto linear = [&](segment_info& segment, const std::string& name, uint32_t out, uint32_t in, bool bias) {
      segment.parameters.push_back(w.matrix(l + name + ".weight", out, in));
      if (bias) segment.parameters.push_back(w.bias(l + name + ".bias", out));
      segment.forward_flops += e.product(in, out);
    };
    segment_info attention{"attention", {}, attention_flops(s, e), attention_saved(s, e)};
    linear(attention, "self_attn.q_proj", q_width, s.width, s.attention_bias);
    linear(attention, "self_attn.k_proj", kv_width, s.width, s.attention_bias);
    linear(attention, "self_attn.v_proj", kv_width, s.width, s.attention_bias);
    linear(attention, "self_attn.o_proj", s.width, q_width, s.attention_bias);
    const double kept =
        s.act == activation::silu ? 2 : 4;  // gate, up; of another activation its output and the product
    segment_info mlp{"mlp", {}, 0, e.activations(s.width + kept * s.inner)};
    linear(mlp, "mlp.gate_proj", s.inner, s.width, s.mlp_bias);
    linear(mlp, "mlp.up_proj", s.inner, s.width, s.mlp_bias);
    linear(mlp, "mlp.down_proj", s.width, s.inner, s.mlp_bias);
    attention.parameters.insert(attention.parameters.begin(), w.norm_weight(l + "input_layernorm.weight", s.width));
    mlp.parameters.insert(mlp.parameters.begin(), w.norm_weight(l + "post_attention_layernorm.weight", s.width));
    table.units.push_back(unit_of("block " + std::to_string(layer), {std::move(attention), std::move(mlp)}));
  }
  segment_info head{"head", {w.norm_weight("norm.weight", s.width)}, 0, 0};
  head.parameters.push_back(
      s.tied ? tokens : table_writer(table, "", s.initializer_range).matrix("lm_head.weight", s.vocabulary, s.width));
  finish_head(s, e, head);
  table.units.push_back(unit_of("head", {std::move(head)}));
  return table;
}

}  // namespace

core::model_table make_model_table(const model_spec& spec, uint64_t rows, uint64_t columns, uint64_t element_bytes) {
  const extent e{static_cast<double>(rows * columns), static_cast<double>(columns), element_bytes};
  auto table = spec.kind == family::gpt2 ? gpt2_table(spec, e) : llama_table(spec, e);
  set_inputs(spec, e, table);
  return table;
}

}  // namespace troupe::models
