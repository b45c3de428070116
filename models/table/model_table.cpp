// Makes the table of a model: layers with the names, shapes and initial values of their parameters, units, segments and
// their costs. No Torch here.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "models/table/model_spec.hpp"

namespace troupe::models {
namespace {

using core::initial_value;
using core::layer_info;
using core::layer_kind;
using core::model_table;
using core::part_role;
using core::segment_info;
using core::unit_info;
using core::weight_layout;

enum class with_bias : uint8_t { no, yes };

constexpr double flops_per_multiply_add = 2.0;

/// Makes the layers of a model, and adds their parameters to the table in the order of the calls, which is the order in
/// Hugging Face's files.
class layer_writer {
 public:
  layer_writer(model_table& table, std::string prefix, double initializer_range)
      : table_(table), prefix_(std::move(prefix)), range_(static_cast<float>(initializer_range)) {}

  layer_info linear(const std::string& name, weight_layout layout, uint32_t in, uint32_t out, with_bias bias) {
    return linear(name, layout, in, out, bias, range_);
  }
  layer_info linear(const std::string& name, weight_layout layout, uint32_t in, uint32_t out, with_bias bias,
                    float std) {
    layer_info l = plain(name, layer_kind::linear, in, out);
    l.layout = layout;
    weight(l, layout == weight_layout::in_out ? std::vector<int64_t>{in, out} : std::vector<int64_t>{out, in},
           initial_value::normal, std);
    if (bias == with_bias::yes) add_bias(l);
    return l;
  }
  layer_info embedding(const std::string& name, layer_kind kind, uint32_t rows, uint32_t width) {
    layer_info l = plain(name, kind, rows, width);
    l.layout = weight_layout::in_out;
    weight(l, {rows, width}, initial_value::normal, range_);
    return l;
  }
  /// Adds a bias of `width` elements whose name is not that of its layer, and returns its index.
  uint32_t bias(const std::string& name, uint32_t width) {
    table_.parameters.push_back({prefix_ + name, {width}, initial_value::zeros, 0, /*decay=*/false});
    return static_cast<uint32_t>(table_.parameters.size() - 1);
  }
  /// Adds a norm whose factors are 1 at first. `shift`: number added to its weights.
  layer_info norm(const std::string& name, uint32_t width, with_bias bias, float shift) {
    layer_info l = plain(name, layer_kind::norm, width, width);
    weight(l, {width}, shift == 0 ? initial_value::ones : initial_value::zeros, 0);
    if (bias == with_bias::yes) add_bias(l);
    return l;
  }
  /// Returns a layer without parameters.
  [[nodiscard]] layer_info plain(const std::string& name, layer_kind kind, uint64_t in, uint64_t out) const {
    layer_info l;
    l.name = prefix_ + name;
    l.kind = kind;
    l.in = in;
    l.out = out;
    return l;
  }

 private:
  void weight(layer_info& l, std::vector<int64_t> shape, initial_value init, float std) {
    const bool decay = shape.size() > 1;
    l.weight = add(l, {l.name + ".weight", std::move(shape), init, std, decay});
  }
  void add_bias(layer_info& l) {
    l.bias = add(l, {l.name + ".bias", {static_cast<int64_t>(l.out)}, initial_value::zeros, 0, /*decay=*/false});
  }
  uint32_t add(layer_info& l, core::parameter_info parameter) {
    table_.parameters.push_back(std::move(parameter));
    return l.parameters.emplace_back(static_cast<uint32_t>(table_.parameters.size() - 1));
  }

  model_table& table_;
  std::string prefix_;
  float range_;
};

/// The sizes from which the flops and bytes of a segment are computed.
struct extent {
  /// Number of tokens of a micro-batch that a rank computes, and number of columns (tokens) of a whole sample.
  double tokens, columns;
  uint64_t element_bytes;
  sequence_split sequence = {};
  double all_tokens = tokens;  // number of tokens of all ranks of a sequence group together
  // Number of tokens for which a rank computes norms, if tensor-parallel ranks divide norms; else 0.
  double own_tokens = 0;
  [[nodiscard]] double product(double in, double out) const { return flops_per_multiply_add * tokens * in * out; }
  [[nodiscard]] uint64_t activations(double per_token) const {
    return static_cast<uint64_t>(tokens * per_token) * element_bytes;
  }
  /// Returns the bytes of `per_token` elements for each token that a rank passes from unit to unit: only its own tokens
  /// if tensor-parallel ranks divide norms.
  [[nodiscard]] uint64_t own_activations(double per_token) const {
    return static_cast<uint64_t>((own_tokens > 0 ? own_tokens : tokens) * per_token) * element_bytes;
  }
  /// Returns the bytes of `per_token` 64-bit integers for each token, such as token numbers that backward needs.
  [[nodiscard]] uint64_t numbers(double per_token) const {
    return static_cast<uint64_t>(tokens * per_token) * sizeof(int64_t);
  }
};

/// Returns how many tokens a token of a sample attends to on average: half of the columns, or, with a window `w`, the
/// first w tokens half of the window, and each further token w.
double attended_tokens(double columns, int64_t window) {
  const auto w = static_cast<double>(window);
  if (window == 0 || w >= columns) return (columns + 1) / 2;
  return (w * (w + 1) / 2 + (columns - w) * w) / columns;
}

/// Returns the flops of attention's scores and weighted sums. `of`: options of the layer's attention.
double attention_flops(const model_spec& s, const extent& e, const attention_options& of) {
  const double attended = of.causal ? attended_tokens(e.columns, of.window) : e.columns;
  return 2 * flops_per_multiply_add * e.tokens * attended * s.heads * s.head_width;
}

/// Returns the elements per token that a norm after attention or after an MLP keeps for backward: its input.
double end_norm_saved(const model_spec& s) { return s.family->has_end_norms() ? s.width : 0; }

/// Returns the elements per token that a norm of the residual path keeps for backward besides its input: its output,
/// which the linear layers read.
double sum_norm_saved(const model_spec& s) { return s.family->has_sum_norms() ? s.width : 0; }

/// Returns the elements per token that the transform before the head's last layer keeps for backward: the path's normed
/// state, the activation's input if its backward reads it, and its output.
double head_transform_saved(const model_spec& s) {
  if (!s.family->has_head_transform()) return 0;
  return double{1} * s.width * (keeps_input(s.head_act) ? 3 : 2);
}

/// Returns the bytes that an attention segment keeps for backward: its input (the norm is recomputed), queries, keys,
/// values, and the outputs of the heads; also the inputs of norms of queries and keys, and of a norm after attention.
uint64_t attention_saved(const model_spec& s, const extent& e) {
  const double q = double{1} * s.heads * s.head_width, kv = double{2} * s.kv_heads * s.head_width;
  return e.activations(s.width + 2 * q + kv + (s.family->has_query_norms() ? q + kv / 2 : 0) + end_norm_saved(s) +
                       sum_norm_saved(s));
}

/// Returns the costs of keeping fewer activations of an attention segment: bytes kept (input and outputs of the heads),
/// bytes that backward needs in addition, and flops to recompute queries, keys and values from the norm's output.
/// Rotation meanwhile holds a second copy of the queries. Nothing is returned if queries and keys have norms, whose
/// inputs are always kept, if no norm precedes attention or one follows it, or if one layer's outputs are taken apart
/// for their rotation.
core::light_keeping attention_light(const model_spec& s, const extent& e) {
  const bool is_unpacked = s.family->is_packed() && s.family->is_rotary();
  if (s.family->has_query_norms() || !s.family->has_first_norms() || s.family->has_end_norms() || is_unpacked)
    return {};
  const double q = double{1} * s.heads * s.head_width, kv = double{2} * s.kv_heads * s.head_width;
  const double turned = s.family->is_rotary() ? q : 0;
  return {e.activations(s.width + q), e.activations(s.width + q + kv + turned), e.product(s.width, q + kv)};
}

/// Returns the segment of an MLP with its costs. It keeps its input and the inputs of its activation for backward; if
/// ATen computes the activation instead of a kernel, also its results, and not its input if only these are read. With a
/// kernel, the smaller set of kept activations is the input alone. If the MLP is computed in row tiles, the input alone
/// is kept in any case; backward then also allocates, for one tile, the norm's output (and one more gradient of it if
/// there are two first layers) and the elements before and after the activation; two numbers for each row; and for
/// 16-bit types the weights' gradients in fp32, which are summed over panels of rows. A norm after the MLP keeps its
/// input; with such a norm, and without a norm before the MLP, there is no smaller set.
segment_info mlp_segment(const model_spec& s, const extent& e) {
  const uint64_t inputs = s.family->mlp_inputs(), before = inputs * s.inner;
  const bool fused = s.act == (s.family->is_gated() ? activation::silu : activation::gelu_tanh);
  const auto width = static_cast<double>(s.width), inner = static_cast<double>(before);
  const double end = end_norm_saved(s) + sum_norm_saved(s);
  const double by_aten = 2 * inner - (keeps_input(s.act) ? 0 : s.inner);
  segment_info out{"mlp", {}, 0, e.activations(width + end + (fused ? inner : by_aten))};
  if (fused && s.family->has_first_norms() && !s.family->has_end_norms() && !s.family->has_packed_mlp())
    out.light = {e.activations(width), e.activations(width + inner), e.product(width, inner)};
  if (s.mlp_tile_rows == 0) return out;
  const uint64_t wide_bytes = std::max<uint64_t>(e.element_bytes, sizeof(float));
  const bool adds_apart = e.element_bytes < sizeof(float);
  // The outputs of one layer of gate and values are taken apart, and their gradients put together again.
  const uint64_t apart = s.family->has_packed_mlp() ? 2 * before : 0;
  const uint64_t around = (fused ? before + s.inner : 2 * (before + s.inner)) + apart;
  out.saved_bytes = e.activations(width + end);
  out.tile_rows = s.mlp_tile_rows;
  const uint64_t outside = s.family->has_first_norms() ? inputs : inputs - 1;
  out.tile_bytes = s.mlp_tile_rows * (outside * s.width + around) * e.element_bytes +
                   static_cast<uint64_t>(e.tokens) * 2 * wide_bytes +
                   (adds_apart ? (before + s.inner) * s.width * wide_bytes : 0);
  out.light = {out.saved_bytes, out.tile_bytes, e.product(width, inner)};
  return out;
}

/// Returns the segment of the head with its costs. If it is computed in row tiles, only its input is kept for backward,
/// which then also allocates a tile of logits, four numbers for each row, and for 16-bit types the weight's gradient in
/// fp32, which is summed over panels of rows. A soft cap of logits keeps as many numbers as there are logits; a
/// transform before the last layer keeps its tensors in any case.
segment_info head_segment(const model_spec& s, const extent& e) {
  const uint64_t row_numbers = uint64_t{s.vocabulary} * (s.logits.soft_cap == 0 ? 1 : 2);
  const double hidden = s.width + head_transform_saved(s);
  if (s.head_tile_rows == 0)
    return {"head", {}, 0, e.activations(hidden + static_cast<double>(row_numbers)) + e.numbers(1)};
  segment_info out{"head", {}, 0, e.activations(hidden) + e.numbers(1)};
  const uint64_t wide_bytes = std::max<uint64_t>(e.element_bytes, sizeof(float));
  const bool adds_apart = e.element_bytes < sizeof(float);
  out.tile_rows = s.head_tile_rows;
  out.tile_bytes = s.head_tile_rows * row_numbers * e.element_bytes + static_cast<uint64_t>(e.tokens) * 4 * wide_bytes +
                   (adds_apart ? uint64_t{s.width} * s.vocabulary * wide_bytes : 0);
  return out;
}

void set_inputs(const model_spec& s, const extent& e, model_table& table) {
  for (size_t u = 1; u < table.units.size(); ++u) table.units[u].input_bytes = e.own_activations(s.width);
}

/// A segment and its layers, in the order in which they are computed.
struct segment_layers {
  segment_info segment;
  std::vector<layer_info> layers;
  size_t tiled_from = 0;  // index of the first layer that is computed in row tiles, if the segment has tiles
  double shared = 0;      // elements per token of the output gradient that two of the linear layers share
};

/// Returns how many elements per token the weight part of a split backward reads: the gradients of the outputs of the
/// segment's linear layers, and their inputs, which consecutive linear layers share; for an embedding only the
/// gradient.
double read_by_weight_part(std::span<const layer_info> layers) {
  double out = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].kind == layer_kind::embedding) out += static_cast<double>(layers[i].out);
    if (layers[i].kind != layer_kind::linear) continue;
    const bool shares = i > 0 && layers[i - 1].kind == layer_kind::linear;
    out += static_cast<double>(layers[i].out) + (shares ? 0 : static_cast<double>(layers[i].in));
  }
  return out;
}

/// Returns the bytes of parameter gradients that the input part of a split backward computes and keeps for the weight
/// part, of layers that are computed in row tiles: a tile's tensors do not exist any more in the weight part.
uint64_t formed_weight_bytes(const extent& e, std::span<const layer_info> layers) {
  uint64_t elements = 0;
  for (const layer_info& l : layers)
    if (l.kind == layer_kind::linear) elements += l.in * l.out + (l.bias ? l.out : 0);
  return elements * e.element_bytes;
}

/// Appends a unit with these segments and layers to the table, and computes from the layers the segments' parameters,
/// the flops of their products and the bytes that a split backward keeps.
void add_unit(const extent& e, std::string name, std::vector<segment_layers> segments, model_table& table) {
  unit_info unit{std::move(name), {}, {}};
  for (auto& [segment, layers, tiled_from, shared] : segments) {
    const auto plain = std::span<const layer_info>(layers).first(segment.is_tiled() ? tiled_from : layers.size());
    segment.weight_bytes = e.activations(read_by_weight_part(plain) - shared) +
                           formed_weight_bytes(e, std::span<const layer_info>(layers).subspan(plain.size()));
    double products = 0;
    size_t index = 0;
    for (layer_info& l : layers) {
      l.unit = static_cast<uint32_t>(table.units.size());
      l.segment = static_cast<uint32_t>(unit.segments.size());
      segment.parameters.insert(segment.parameters.end(), l.parameters.begin(), l.parameters.end());
      const double flops =
          l.kind == layer_kind::linear ? e.product(static_cast<double>(l.in), static_cast<double>(l.out)) : 0;
      products += flops;
      l.product_flops = flops;
      l.rows = static_cast<uint64_t>(l.kind == layer_kind::norm && e.own_tokens > 0 ? e.own_tokens : e.tokens);
      l.is_tiled = index++ >= plain.size();
      if (!l.is_tiled) segment.weight_flops += flops;
      table.layers.push_back(std::move(l));
    }
    segment.forward_flops += products;
    unit.parameters.insert(unit.parameters.end(), segment.parameters.begin(), segment.parameters.end());
    unit.segments.push_back(std::move(segment));
  }
  table.units.push_back(std::move(unit));
}

/// Returns the layer without parameters that computes attention itself, between the linear layers of a block's
/// attention.
layer_info attention_layer(const layer_writer& w, const model_spec& s, const std::string& name) {
  const uint64_t packed = (uint64_t{s.heads} + uint64_t{2} * s.kv_heads) * s.head_width;
  layer_info l = w.plain(name, layer_kind::attention, packed, uint64_t{s.heads} * s.head_width);
  l.heads = s.heads;
  l.kv_heads = s.kv_heads;
  return l;
}

/// Returns `layer`, a linear layer before or after attention, or a norm over all heads, with the numbers of query heads
/// and key-value heads that its outputs or inputs consist of.
layer_info of_heads(layer_info layer, uint32_t heads, uint32_t kv_heads) {
  layer.heads = heads;
  layer.kv_heads = kv_heads;
  return layer;
}

/// Returns the head's linear layer: with a weight of its own, or, if weights are tied, with the embedding's weight,
/// used in the other layout.
layer_info head_layer(const model_spec& s, uint32_t embedding_weight, model_table& table) {
  layer_writer w(table, "", s.initializer_range);
  const std::string name(s.family->names.head);
  if (!s.tied) return w.linear(name, weight_layout::out_in, s.width, s.vocabulary, with_bias::no);
  layer_info l = w.plain(name, layer_kind::linear, s.width, s.vocabulary);
  l.layout = weight_layout::out_in;
  l.weight = l.parameters.emplace_back(embedding_weight);
  return l;
}

/// The layers of an attention segment divided into those before attention, attention itself and those after it, for
/// samples that are divided over the ranks of a sequence group.
struct attention_cut {
  segment_layers in, own, out;  // `out` is empty if the ranks exchange nothing after attention

  attention_cut(segment_layers whole, bool apart) {
    auto* into = &in.layers;
    for (layer_info& l : whole.layers) {
      if (l.kind == layer_kind::attention) into = &own.layers;
      into->push_back(std::move(l));
      if (apart && into == &own.layers) into = &out.layers;
    }
  }
};

/// Divides an attention segment where ranks exchange heads: for attention itself, a rank has some heads with the tokens
/// of all ranks; its inputs and outputs are exchanged all-to-all.
std::vector<segment_layers> cut_at_heads(const model_spec& s, const extent& e, const attention_options& of,
                                         attention_cut parts) {
  const dealt_heads heads = heads_of(s, e.sequence);
  const auto packed = static_cast<double>(heads.packed_width()), mixed = static_cast<double>(heads.mixed_width());
  const core::segment_exchange to{core::exchange_op::swap, e.activations(packed), core::exchange_group::sequence};
  const core::segment_exchange back{core::exchange_op::swap, e.activations(mixed), core::exchange_group::sequence};
  model_spec own = s;
  own.heads = static_cast<uint32_t>(heads.widest() * heads.group);
  extent all = e;
  all.tokens = e.all_tokens;
  parts.in.segment = {"attention in", {}, 0, e.activations(s.width + sum_norm_saved(s))};
  parts.own.segment = {"attention", {}, attention_flops(own, all, of), all.activations(packed)};
  parts.out.segment = {"attention out", {}, 0, e.activations(double{1} * s.heads * s.head_width + end_norm_saved(s))};
  parts.in.segment.output = parts.own.segment.input_gradient = to;
  parts.own.segment.output = parts.out.segment.input_gradient = back;
  return {std::move(parts.in), std::move(parts.own), std::move(parts.out)};
}

/// Divides an attention segment where ranks keep their own queries: attention needs the keys and values of all ranks'
/// tokens, which are gathered before it.
std::vector<segment_layers> cut_at_keys(const model_spec& s, const extent& e, const attention_options& of,
                                        attention_cut parts) {
  const double q = double{1} * s.heads * s.head_width, kv = double{2} * s.kv_heads * s.head_width;
  extent all = e;
  all.tokens = e.all_tokens;
  parts.in.segment = {"attention in", {}, 0, e.activations(s.width + sum_norm_saved(s))};
  parts.own.segment = {
      "attention", {}, attention_flops(s, e, of), e.activations(2 * q + end_norm_saved(s)) + all.activations(kv)};
  parts.in.segment.output = {core::exchange_op::collect, e.activations(kv), core::exchange_group::sequence};
  parts.own.segment.input_gradient = {core::exchange_op::scatter, e.activations(kv), core::exchange_group::sequence};
  return {std::move(parts.in), std::move(parts.own)};
}

std::vector<segment_layers> cut_attention(const model_spec& s, const extent& e, const attention_options& of,
                                          segment_layers whole) {
  if (e.sequence.degree == 1) return {std::move(whole)};
  if (e.sequence.way == sequence_way::keys) return cut_at_keys(s, e, of, {std::move(whole), /*apart=*/false});
  return cut_at_heads(s, e, of, {std::move(whole), /*apart=*/true});
}

/// Divides an attention segment before its norms of queries and of keys, which are formed over the heads of all
/// tensor-parallel ranks: the ranks exchange two sums of squares for each token, and the gradients of these sums.
std::vector<segment_layers> cut_at_norms(const model_spec& s, const extent& e, const attention_options& of,
                                         segment_layers whole) {
  const double q = double{1} * s.heads * s.head_width, kv = double{2} * s.kv_heads * s.head_width;
  const uint64_t sums = 2 * static_cast<uint64_t>(e.tokens) * std::max<uint64_t>(e.element_bytes, sizeof(float));
  segment_layers in{{"attention in", {}, 0, e.activations(s.width + sum_norm_saved(s))}, {}};
  // The segment keeps queries, keys and values as it reads them and as attention reads them, a number for each sum, and
  // the outputs of the heads.
  segment_layers own{
      {"attention", {}, attention_flops(s, e, of), e.activations(3 * q + 2 * kv + end_norm_saved(s)) + sums}, {}};
  in.segment.output = {core::exchange_op::collect, sums};
  own.segment.input_gradient = {core::exchange_op::scatter, sums};
  auto* into = &in.layers;
  for (layer_info& l : whole.layers) {
    if (l.kind == layer_kind::norm && l.heads + l.kv_heads > 0) into = &own.layers;
    into->push_back(std::move(l));
  }
  return {std::move(in), std::move(own)};
}

/// Removes the norm from `segment` and returns it as a segment of its own, because each tensor-parallel rank computes
/// it for its own columns (tokens) only.
segment_layers norm_of(const model_spec& s, const extent& e, const char* name, segment_layers& segment) {
  segment_layers out{{name, {}, 0, e.own_activations(s.width)}, {std::move(segment.layers.front())}};
  segment.layers.erase(segment.layers.begin());
  segment_info& left = segment.segment;
  const uint64_t of_norm = left.is_tiled() ? left.tile_rows * s.width * e.element_bytes : e.activations(s.width);
  if (left.light.flops > 0) left.light.beside -= of_norm;
  if (left.light.flops > 0 && left.is_tiled()) left.tile_bytes -= of_norm;
  return out;
}

/// Moves the norm after a half of a block from `half`, the half's last segment, to the beginning of `next`, the segment
/// that reads the sum of the half's output over tensor-parallel ranks.
void move_end_norm(const model_spec& s, const extent& e, segment_layers& half, segment_layers& next) {
  next.layers.insert(next.layers.begin(), std::move(half.layers.back()));
  half.layers.pop_back();
  next.segment.saved_bytes += e.own_activations(s.width);
  half.segment.saved_bytes -= e.activations(s.width);
  if (half.segment.light.flops > 0) half.segment.light.bytes -= e.activations(s.width);
}

/// Removes the norm after a half of a block from `half`, the half's last segment, and returns it as a segment of its
/// own.
segment_layers end_norm_of(const model_spec& s, const extent& e, const char* name, segment_layers& half) {
  segment_layers out{{name, {}, 0, 0}, {}};
  move_end_norm(s, e, half, out);
  return out;
}

/// Adds the MLP to `last`, the last segment of attention, if both read the same residual path. `keeps_input`: the
/// segment already keeps the MLP's input. Both outputs are added to that path, so they have one gradient tensor, unless
/// each has a dropout mask of its own.
void join(const model_spec& s, const extent& e, segment_layers mlp, bool keeps_input, segment_layers& last) {
  segment_info &to = last.segment, &more = mlp.segment;
  to.name = keeps_input ? "block" : to.name + " and mlp";
  to.saved_bytes += more.saved_bytes - (keeps_input ? e.activations(s.width) : 0);
  to.tile_rows = more.tile_rows;
  to.tile_bytes = more.tile_bytes;
  to.light = {};
  if (more.is_tiled()) to.light = {to.saved_bytes, more.tile_bytes, more.light.flops};
  last.tiled_from = last.layers.size();
  if (!more.is_tiled() && s.residual_dropout == 0) last.shared = s.width;
  for (layer_info& l : mlp.layers) last.layers.push_back(std::move(l));
}

/// Adds a block to the table. `of_sums`: the halves whose norm behind them reads a sum over tensor-parallel ranks;
/// `joins`: true if these ranks form norms of queries and keys together.
void add_block(const model_spec& s, const extent& e, uint32_t block, const block_split& of_sums, bool joins,
               segment_layers attention, segment_layers mlp, model_table& table) {
  std::vector<segment_layers> segments;
  if (e.own_tokens > 0) {
    segments.push_back(norm_of(s, e, "attention norm", attention));
    segment_layers between = norm_of(s, e, "mlp norm", mlp), last{{"residual", {}, 0, 0}, {}};
    if (of_sums.attention) move_end_norm(s, e, attention, between);
    if (of_sums.mlp) move_end_norm(s, e, mlp, last);
    segments.push_back(std::move(attention));
    segments.push_back(std::move(between));
    segments.push_back(std::move(mlp));
    segments.push_back(std::move(last));
  } else {
    segments = joins ? cut_at_norms(s, e, s.attention_in(block), std::move(attention))
                     : cut_attention(s, e, s.attention_in(block), std::move(attention));
    if (of_sums.attention) segments.push_back(end_norm_of(s, e, "attention end", segments.back()));
    if (s.parallel_residual)
      join(s, e, std::move(mlp), /*keeps_input=*/segments.size() == 1, segments.back());
    else
      segments.push_back(std::move(mlp));
    if (of_sums.mlp) segments.push_back(end_norm_of(s, e, "mlp end", segments.back()));
  }
  add_unit(e, fmt::format("block {}", block), std::move(segments), table);
}

void add_embedding(const extent& e, std::vector<layer_info> layers, model_table& table) {
  std::vector<segment_layers> segments{{{"embedding", {}, 0, e.numbers(1)}, std::move(layers)}};
  if (e.own_tokens > 0) segments.push_back({{"residual", {}, 0, 0}, {}});
  add_unit(e, "embedding", std::move(segments), table);
}

void add_head(const model_spec& s, const extent& e, std::vector<layer_info> layers, model_table& table) {
  segment_layers head{head_segment(s, e), std::move(layers)};
  if (s.family->has_head_transform()) head.tiled_from = 2;  // after the path's norm and the transform
  std::vector<segment_layers> segments;
  if (e.own_tokens > 0) segments.push_back(norm_of(s, e, "head norm", head));
  segments.push_back(std::move(head));
  add_unit(e, "head", std::move(segments), table);
  core::segment_info& whole = table.units.back().segments.back();
  if (whole.is_tiled()) whole.left_flops = whole.forward_flops - whole.weight_flops;
}

with_bias norm_bias(const model_spec& s) { return with_bias{s.family->norm == families::norm_kind::layer}; }

/// Makes the layers of one block, with the names that the model's family uses.
class block_writer {
 public:
  /// Makes the layers of block number `block`. `local` has the sizes of this rank's part of the block. `residual_std`
  /// is the standard deviation of the initial weights of the layers whose outputs are added to the residual path.
  block_writer(layer_writer& w, const model_spec& local, uint32_t block, float residual_std)
      : w_(w),
        s_(local),
        names_(local.family->names),
        prefix_(fmt::format("{}{}.", names_.blocks, block)),
        residual_std_(residual_std) {}

  /// Appends the layers of the block's attention and of its MLP, with the parameters in the order of Hugging Face's
  /// files. On entry, `sum` is the norm of the residual path before the block, which the block computes; on return, it
  /// is the norm after the block. nullopt: the family does not norm the path.
  void write(std::optional<layer_info>& sum, std::vector<layer_info>& attention, std::vector<layer_info>& mlp) {
    using enum families::norm_order;
    const families::norm_order order = s_.family->order_of_norms;
    if (sum) attention.push_back(std::move(*sum));
    if (order != last) attention.push_back(norm(names_.attention_norm));
    if (order == first) mlp.push_back(norm(names_.mlp_norm));
    add_attention(attention);
    if (sum) mlp.push_back(norm(names_.attention_sum_norm));
    if (order == beside) mlp.push_back(norm(names_.mlp_norm));
    add_mlp(mlp);
    if (sum) sum = norm(names_.mlp_sum_norm);
    if (order != last) return;
    add_norms(names_.attention_norm, names_.attention_end_norm, attention);
    add_norms(names_.mlp_norm, names_.mlp_end_norm, mlp);
  }

 private:
  [[nodiscard]] std::string named(std::string_view name) const { return prefix_ + std::string(name); }
  layer_info norm(std::string_view name) { return norm(name, s_.width); }
  layer_info norm(std::string_view name, uint32_t width) {
    return w_.norm(named(name), width, norm_bias(s_), s_.family->norm_shift);
  }
  /// Adds the norms before and after the layers `to` of one half of the block; an empty name: there is none.
  void add_norms(std::string_view first, std::string_view end, std::vector<layer_info>& to) {
    if (!first.empty()) to.insert(to.begin(), norm(first));
    if (!end.empty()) to.push_back(norm(end));
  }
  layer_info linear(std::string_view name, uint32_t in, uint32_t out, bool biased) {
    return w_.linear(named(name), s_.family->layout, in, out, with_bias{biased});
  }
  layer_info residual(std::string_view name, uint32_t in, bool biased) {
    return w_.linear(named(name), s_.family->layout, in, s_.width, with_bias{biased}, residual_std_);
  }
  void add_attention(std::vector<layer_info>& to) {
    const uint32_t q_width = s_.heads * s_.head_width, kv_width = s_.kv_heads * s_.head_width;
    const bool biased = s_.attention_bias;
    std::optional<layer_info> first;
    if (s_.family->attention_output_is_first) first = attention_output();
    if (s_.family->is_packed()) {
      layer_info packed = linear(names_.packed, s_.width, q_width + 2 * kv_width, biased);
      if (s_.family->packed_as == families::packing::side_by_side)
        packed.parts = {{part_role::query, q_width}, {part_role::key, kv_width}, {part_role::value, kv_width}};
      to.push_back(of_heads(std::move(packed), s_.heads, s_.kv_heads));
    } else {
      to.push_back(of_heads(linear(names_.query, s_.width, q_width, biased), s_.heads, 0));
      to.push_back(of_heads(linear(names_.key, s_.width, kv_width, biased), 0, s_.kv_heads));
      to.push_back(of_heads(linear(names_.value, s_.width, kv_width, biased), 0, s_.kv_heads));
    }
    layer_info output = first ? std::move(*first) : attention_output();
    if (s_.family->has_query_norms()) {  // the parameters of these norms follow those of the output layer in files
      const bool by_head = s_.family->query_norms == families::query_norm_span::head;
      if (by_head) {
        to.push_back(norm(names_.query_norm, s_.head_width));
        to.push_back(norm(names_.key_norm, s_.head_width));
      } else {
        to.push_back(of_heads(norm(names_.query_norm, q_width), s_.heads, 0));
        to.push_back(of_heads(norm(names_.key_norm, kv_width), 0, s_.kv_heads));
      }
    }
    to.push_back(attention_layer(w_, s_, named(names_.attention)));
    to.push_back(std::move(output));
  }
  layer_info attention_output() {
    const bool biased = s_.attention_bias && !s_.family->attention_output_is_unbiased;
    return of_heads(residual(names_.attention_output, s_.heads * s_.head_width, biased), s_.heads, 0);
  }
  void add_mlp(std::vector<layer_info>& to) {
    if (s_.family->has_packed_mlp()) {
      layer_info packed = linear(names_.gate_and_up, s_.width, 2 * s_.inner, s_.mlp_bias);
      packed.parts = {{part_role::gate, s_.inner}, {part_role::up, s_.inner}};
      to.push_back(std::move(packed));
    } else {
      if (s_.family->is_gated()) to.push_back(linear(names_.gate, s_.width, s_.inner, s_.mlp_bias));
      to.push_back(linear(names_.up, s_.width, s_.inner, s_.mlp_bias));
    }
    to.push_back(w_.plain(named(names_.activation), layer_kind::activation, s_.inner, s_.inner));
    to.push_back(residual(names_.down, s_.inner, s_.mlp_bias));
  }

  layer_writer& w_;
  const model_spec& s_;
  const families::layer_names& names_;
  std::string prefix_;
  float residual_std_;
};

/// Returns the layers of the embedding. Sets `sum` to the norm of the sum of the embedding's vectors, if the family has
/// it; the first block computes that norm.
std::vector<layer_info> layers_of_embedding(layer_writer& w, const model_spec& ends, std::optional<layer_info>& sum) {
  const families::family& f = *ends.family;
  const auto& names = f.names;
  const auto positions = [&] {
    return w.embedding(std::string(names.positions), layer_kind::position_embedding, ends.positions, ends.width);
  };
  std::vector<layer_info> out{
      w.embedding(std::string(names.embedding), layer_kind::embedding, ends.vocabulary, ends.width)};
  if (!f.is_rotary() && !f.positions_are_last) out.push_back(positions());
  if (!names.token_types.empty())
    out.push_back(
        w.embedding(std::string(names.token_types), layer_kind::type_embedding, ends.token_types, ends.width));
  if (!names.embedding_norm.empty())
    sum = w.norm(std::string(names.embedding_norm), ends.width, norm_bias(ends), f.norm_shift);
  if (!f.is_rotary() && f.positions_are_last) out.push_back(positions());
  return out;
}

/// Returns the layers of the head. `sum` is the norm of the residual path after the last block; nullopt: the family
/// does not norm the path, and the head has a norm of its own. An encoder's head transforms the hidden state before its
/// last layer, whose bias precedes the transform in files.
std::vector<layer_info> layers_of_head(const model_spec& ends, uint32_t tokens_weight, std::optional<layer_info> sum,
                                       model_table& table) {
  const families::family& f = *ends.family;
  const auto& names = f.names;
  std::vector<layer_info> out;
  if (!sum) {
    layer_writer w(table, std::string(names.prefix), ends.initializer_range);
    out.push_back(w.norm(std::string(names.final_norm), ends.width, norm_bias(ends), f.norm_shift));
    out.push_back(head_layer(ends, tokens_weight, table));
    return out;
  }
  layer_writer w(table, "", ends.initializer_range);
  out.push_back(std::move(*sum));
  const uint32_t bias = w.bias(std::string(names.head_bias), ends.vocabulary);
  out.push_back(w.linear(std::string(names.head_transform), f.layout, ends.width, ends.width, with_bias::yes));
  out.push_back(w.norm(std::string(names.head_norm), ends.width, norm_bias(ends), f.norm_shift));
  out.push_back(head_layer(ends, tokens_weight, table));
  out.back().bias = out.back().parameters.emplace_back(bias);
  return out;
}

model_table table_of(const model_spec& whole, const extent& e, const tensor_split& split) {
  model_table table;
  const model_spec ends = local_ends(whole, split);
  layer_writer w(table, std::string(whole.family->names.prefix), whole.initializer_range);
  const double smaller = whole.family->residual_starts_smaller ? std::sqrt(2.0 * whole.layers) : 1.0;
  const auto residual_std = static_cast<float>(whole.initializer_range / smaller);
  std::optional<layer_info> sum;  // norm of the residual path that the next block or the head computes
  std::vector<layer_info> embeddings = layers_of_embedding(w, ends, sum);
  const uint32_t tokens_weight = *embeddings.front().weight;
  // A rank's part of the vocabulary has other rows; its initial values are those of the whole table.
  if (ends.vocabulary == whole.vocabulary) table.parameters[tokens_weight].zero_row = whole.padding_token;
  if (whole.family->positions_follow_padding) {
    const auto positions = std::ranges::find(embeddings, layer_kind::position_embedding, &layer_info::kind);
    table.parameters[*positions->weight].zero_row = whole.padding_token;
  }
  add_embedding(e, std::move(embeddings), table);
  for (uint32_t block = 0; block < whole.layers; ++block) {
    const model_spec s = local_block(whole, split, block);
    segment_layers attention{{"attention", {}, attention_flops(s, e, s.attention_in(block)), attention_saved(s, e)},
                             {}};
    attention.segment.light = attention_light(s, e);
    segment_layers mlp{mlp_segment(s, e), {}};
    block_writer(w, s, block, residual_std).write(sum, attention.layers, mlp.layers);
    add_block(s, e, block, norms_of_sums(whole, split, block), joins_norms(whole, split, block), std::move(attention),
              std::move(mlp), table);
  }
  add_head(ends, e, layers_of_head(ends, tokens_weight, std::move(sum), table), table);
  return table;
}

}  // namespace

core::model_table make_model_table(const model_spec& spec, uint64_t rows, uint64_t columns, uint64_t element_bytes,
                                   const tensor_split& split, const sequence_split& sequence) {
  const uint64_t own = rows * sequence.most_columns(columns);
  extent e{static_cast<double>(own), static_cast<double>(columns), element_bytes, sequence,
           static_cast<double>(rows * columns)};
  if (split.norms) e.own_tokens = static_cast<double>(rows * split.of_columns().most_columns(columns));
  const auto table_with_adapters = [&](const extent& of, const tensor_split& by) {
    auto out = table_of(spec, of, by);
    if (spec.adapters) add_adapters(*spec.adapters, e.tokens, element_bytes, out);
    return out;
  };
  auto table = table_with_adapters(e, split);
  set_inputs(spec, e, table);
  const extent whole{e.tokens, e.columns, element_bytes};
  const uint64_t row_number = own * std::max<uint64_t>(element_bytes, sizeof(float));
  if (split.degree > 1)
    add_exchanges(tp_plan_of(table_with_adapters(whole, {}), split),
                  {e.activations(spec.width), split.norms ? e.own_activations(spec.width) : 0, own, row_number}, table);
  return table;
}

}  // namespace troupe::models
