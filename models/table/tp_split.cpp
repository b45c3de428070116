#include "models/table/tp_split.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <string>

#include "kernels/layers/cross_entropy.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::models {
namespace {

using core::layer_info;
using core::layer_kind;
using core::parameter_cut;
using core::tp_style;
using core::weight_layout;

/// Returns the dimension of the weight in which it is divided over ranks: that of its outputs for style column, that of
/// its inputs for style row.
uint32_t dimension_of(const layer_info& l, tp_style style) {
  const bool outputs_first = l.layout == weight_layout::out_in;
  return (style == tp_style::column) == outputs_first ? 0 : 1;
}

/// Records how the linear layers of one segment are divided over tensor-parallel ranks: those before attention or the
/// activation by outputs, those after it by inputs.
class segment_cutter {
 public:
  segment_cutter(const tensor_split& split, std::span<const layer_info> layers, core::tp_plan& to)
      : split_(split), layers_(layers), to_(to) {}

  /// A segment may have attention and an activation, each with linear layers before it and one after it.
  void run() {
    const auto is_middle = [](const layer_info& l) {
      return l.kind == layer_kind::attention || l.kind == layer_kind::activation;
    };
    bool is_after = false;  // the next linear layer is the one after `middle`
    auto middle = std::ranges::find_if(layers_, is_middle);
    for (auto l = layers_.begin(); l != layers_.end() && middle != layers_.end(); ++l) {
      if (l == middle) is_after = true;
      if (l->kind == layer_kind::norm && l->heads + l->kv_heads > 0) norm(*middle, *l);
      if (l->kind != layer_kind::linear) continue;
      is_after ? row(*middle, *l) : column(*middle, *l);
      if (is_after) middle = std::find_if(l, layers_.end(), is_middle);
      is_after = false;
    }
  }

 private:
  [[nodiscard]] core::tp_widths widths(const layer_info& middle, uint64_t total) const {
    return middle.kind == layer_kind::attention ? core::dealt_by_heads(total, middle.kv_heads, split_.degree)
                                                : core::dealt(total, split_.degree, split_.grain);
  }
  void column(const layer_info& middle, const layer_info& l) {
    parameter_cut cut{tp_style::column, dimension_of(l, tp_style::column), {}};
    for (const auto& part : l.parts) cut.parts.push_back(widths(middle, part.width));
    if (l.parts.empty()) cut.parts.push_back(widths(middle, l.out));
    to_.parameters[*l.weight] = cut;
    cut.dimension = 0;
    // Each rank has the whole matrix A of an adapter, which reads the whole input, and the rows of B of its outputs.
    if (l.adapter) to_.parameters[l.adapter->b] = cut;
    if (l.bias) to_.parameters[*l.bias] = std::move(cut);
  }
  /// A norm over all heads has a weight for each of their elements.
  void norm(const layer_info& middle, const layer_info& l) {
    const parameter_cut cut{tp_style::column, 0, {widths(middle, l.out)}};
    to_.parameters[*l.weight] = cut;
    if (l.bias) to_.parameters[*l.bias] = cut;
  }
  void row(const layer_info& middle, const layer_info& l) {
    to_.parameters[*l.weight] = {tp_style::row, dimension_of(l, tp_style::row), {widths(middle, l.in)}};
    // Each rank has the columns of A of its inputs, and the whole of B, whose outputs are summands like the layer's.
    if (l.adapter) to_.parameters[l.adapter->a] = {tp_style::row, 1, {widths(middle, l.in)}};
  }

  const tensor_split& split_;
  std::span<const layer_info> layers_;
  core::tp_plan& to_;
};

/// True if a norm of queries, and one of keys, is formed over the elements of all heads, which tensor-parallel ranks
/// share.
bool norms_heads_together(const model_spec& s) {
  return s.family->has_query_norms() && s.family->query_norms == families::query_norm_span::projection;
}

bool is_cut(const tensor_split& split, std::span<const layer_info> layers, uint32_t block) {
  const bool attends = std::ranges::any_of(layers, [](const auto& l) { return l.kind == layer_kind::attention; });
  return attends ? split.of(block).attention : split.of(block).mlp;
}

}  // namespace

bool has_vocabulary(std::span<const core::layer_info> layers, const core::layer_info& l) {
  if (l.kind != layer_kind::linear) return l.kind == layer_kind::embedding;
  const auto later = layers.subspan(static_cast<size_t>(&l - layers.data()) + 1);
  return std::ranges::none_of(later, [](const layer_info& x) { return x.kind == layer_kind::linear; });
}

model_spec local_block(const model_spec& whole, const tensor_split& split, uint32_t block) {
  model_spec out = whole;
  if (split.degree == 1) return out;
  if (split.of(block).attention) {
    out.kv_heads = static_cast<uint32_t>(core::widest_of(core::dealt(whole.kv_heads, split.degree)));
    out.heads = out.kv_heads * (whole.heads / whole.kv_heads);
  }
  if (split.of(block).mlp)
    out.inner = static_cast<uint32_t>(core::widest_of(core::dealt(whole.inner, split.degree, split.grain)));
  return out;
}

block_split norms_of_sums(const model_spec& whole, const tensor_split& split, uint32_t block) {
  const bool any = split.degree > 1 && whole.family->has_end_norms();
  return {any && split.of(block).attention, any && split.of(block).mlp};
}

bool joins_norms(const model_spec& whole, const tensor_split& split, uint32_t block) {
  return split.degree > 1 && split.of(block).attention && norms_heads_together(whole);
}

uint64_t widest_inner(const model_spec& whole, const tensor_split& split) {
  uint64_t out = 0;
  for (uint32_t b = 0; b < whole.layers; ++b) out = std::max<uint64_t>(out, local_block(whole, split, b).inner);
  return out;
}

model_spec local_ends(const model_spec& whole, const tensor_split& split) {
  model_spec out = whole;
  if (split.degree > 1 && split.vocabulary)
    out.vocabulary = static_cast<uint32_t>(core::widest_of(core::dealt(whole.vocabulary, split.degree)));
  return out;
}

vocabulary_rows own_vocabulary(const model_spec& whole, const model_place& place) {
  vocabulary_rows out{0, whole.vocabulary, whole.vocabulary};
  if (place.split.degree == 1 || !place.split.vocabulary) return out;
  const auto dealt = core::dealt(whole.vocabulary, place.split.degree);
  out.first = static_cast<int64_t>(std::accumulate(dealt.begin(), dealt.begin() + place.coordinate, uint64_t{0}));
  out.count = static_cast<int64_t>(dealt[place.coordinate]);
  return out;
}

core::tp_plan tp_plan_of(const core::model_table& whole, const tensor_split& split, const tensor_split& of_teacher) {
  core::tp_plan out{split.degree, std::vector<parameter_cut>(whole.parameters.size())};
  if (split.degree == 1) return out;
  const uint32_t first = whole.teacher_units, last = static_cast<uint32_t>(whole.units.size()) - 1;
  for (uint32_t u = 0; u <= last; ++u)
    for (uint32_t s = 0; s < whole.units[u].segments.size(); ++s) {
      const auto layers = whole.layers_of(u, s);
      if (u != 0 && u != first && u < last) {
        const tensor_split& by = u < first ? of_teacher : split;
        if (is_cut(by, layers, u - 1 - (u < first ? 0 : first))) segment_cutter(by, layers, out).run();
        continue;
      }
      for (const layer_info& l : layers) {  // layers of the embedding and of the head
        if (!split.vocabulary || !has_vocabulary(layers, l)) continue;
        const parameter_cut cut{tp_style::vocabulary, 0, {core::dealt(u == first ? l.in : l.out, split.degree)}};
        out.parameters[*l.weight] = cut;
        if (l.bias) out.parameters[*l.bias] = cut;
      }
    }
  return out;
}

namespace {

/// Makes the loss a segment of its own after the head's logits, because a rank has only some columns of each row's
/// logits and ranks exchange statistics before the loss.
void split_loss_off(const exchanged_bytes& bytes, core::unit_info& head) {
  core::segment_info& logits = head.segments.back();
  core::segment_info loss{"loss", {}, 0, logits.saved_bytes - bytes.hidden};
  logits.saved_bytes = bytes.hidden;
  logits.output = {core::exchange_op::gather, kernels::row_statistics * bytes.row_number};
  head.segments.push_back(std::move(loss));
}

/// Replaces the sums over ranks in `unit`, if ranks compute norms for their own columns (tokens) only: before a segment
/// that is divided by heads or inner width, the columns of all ranks are collected; after it, the sum is scattered to
/// the ranks by columns. Gradients of parameters that all ranks have whole become sums over ranks.
void exchange_columns(uint64_t own, core::unit_info& unit, core::model_table& local) {
  auto& segments = unit.segments;
  const core::segment_exchange collect{core::exchange_op::collect, own}, scatter{core::exchange_op::scatter, own};
  for (size_t s = 0; s < segments.size(); ++s) {
    if (segments[s].input_gradient.op == core::exchange_op::sum) {
      segments[s].input_gradient = scatter;
      segments[s - 1].output = collect;
    }
    if (segments[s].output.op == core::exchange_op::sum) {
      segments[s].output = scatter;
      segments[s + 1].input_gradient = collect;
    }
    for (const uint32_t q : segments[s].parameters)
      if (auto& share = local.parameters[q].share; share == core::tensor_share::alike)
        share = core::tensor_share::summed;
  }
}

/// Marks that a segment's output may be computed and exchanged in pieces of rows, if the segment has a linear layer
/// that is divided by its inputs, whose outputs are summed over ranks.
void come_in_pieces(core::segment_exchange& output, uint64_t rows, std::span<const layer_info> layers,
                    const core::tp_plan& cut) {
  for (const layer_info& l : layers) {
    if (l.kind != layer_kind::linear || cut.parameters[*l.weight].style != tp_style::row) continue;
    output.rows = rows;
    output.flops += 2 * static_cast<double>(rows) * static_cast<double>(l.in) * static_cast<double>(l.out);
  }
}

}  // namespace

void add_exchanges(const core::tp_plan& cut, const exchanged_bytes& bytes, core::model_table& local) {
  const auto is_cut = [&](uint32_t q) { return cut.parameters[q].cuts(); };
  const auto has_style = [&](const core::segment_info& s, tp_style style) {
    return std::ranges::any_of(s.parameters, [&](uint32_t q) { return cut.parameters[q].style == style; });
  };
  for (size_t u = 0; u < local.units.size(); ++u) {
    bool any = false;
    for (size_t k = 0; k < local.units[u].segments.size(); ++k) {
      core::segment_info& s = local.units[u].segments[k];
      if (std::ranges::none_of(s.parameters, is_cut)) continue;
      any = true;
      const core::segment_exchange sum{core::exchange_op::sum, bytes.hidden};
      if (has_style(s, tp_style::row) || u == 0) s.output = sum;
      if (has_style(s, tp_style::row) && !s.is_tiled())
        come_in_pieces(s.output, bytes.rows, local.layers_of(static_cast<uint32_t>(u), static_cast<uint32_t>(k)), cut);
      // The gradient of sums of squares, which a segment of attention reads, is exchanged instead of a hidden state's.
      const bool reads_hidden = has_style(s, tp_style::column) || !has_style(s, tp_style::row);
      if (u > 0 && reads_hidden && s.input_gradient.op == core::exchange_op::none) s.input_gradient = sum;
      for (const uint32_t q : s.parameters)
        local.parameters[q].share = is_cut(q) ? core::tensor_share::cut : core::tensor_share::summed;
    }
    if (bytes.own > 0) exchange_columns(bytes.own, local.units[u], local);
    if (any && u + 1 == local.units.size()) split_loss_off(bytes, local.units[u]);
  }
}

core::result<void> check_split(const model_spec& whole, const tensor_split& split, uint64_t columns) {
  const auto refuse = [&](const std::string& what, uint64_t most) {
    return core::fail(core::error_kind::bad_input,
                      fmt::format("wanted at most {} ranks, one for each {}, got {}", most, what, split.degree));
  };
  for (uint32_t b = 0; b < whole.layers && split.degree > 1; ++b) {
    if (whole.parallel_residual && split.of(b).attention != split.of(b).mlp)
      return core::fail(core::error_kind::bad_input,
                        fmt::format("wanted attention and MLP of a block both cut, or both whole, because they are "
                                    "computed together in this {} model, got one cut in block {}",
                                    whole.family->model_type, b));
    if (split.of(b).attention && split.degree > whole.heads) return refuse("attention head", whole.heads);
    if (split.of(b).mlp && split.degree > whole.inner) return refuse("element of an MLP's inner width", whole.inner);
  }
  if (split.degree > 1 && split.vocabulary && split.degree > whole.vocabulary)
    return refuse("row of the vocabulary", whole.vocabulary);
  if (!split.norms || split.degree == 1) return {};
  if (whole.parallel_residual)
    return core::fail(core::error_kind::bad_input,
                      "parallel.sharded_norms: wanted false for a model whose attention and MLP are computed together, "
                      "got true");
  if (whole.family->has_sum_norms())
    return core::fail(core::error_kind::bad_input,
                      fmt::format("parallel.sharded_norms: wanted false for a {} model, whose residual path is normed, "
                                  "got true",
                                  whole.family->model_type));
  if (norms_heads_together(whole))
    return core::fail(
        core::error_kind::bad_input,
        fmt::format("parallel.sharded_norms: wanted false for a {} model, whose norms of queries and keys "
                    "span all heads, got true",
                    whole.family->model_type));
  if (split.degree > columns) return refuse("token of a sample", columns);
  const auto is_whole = [](const block_split& b) { return !b.attention || !b.mlp; };
  if (split.vocabulary && std::ranges::none_of(split.blocks, is_whole)) return {};
  return core::fail(core::error_kind::bad_input,
                    "wanted attention and MLP of all blocks and the vocabulary cut with parallel.sharded_norms, got "
                    "one that is whole");
}

}  // namespace troupe::models
