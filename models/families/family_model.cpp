// Computes the segments of a model unit by unit, and the logits of the next token for text generation.
#include "models/families/family_model.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <numeric>

#include "core/tied_copies.hpp"
#include "kernels/layers/cross_entropy.hpp"
#include "models/layers/distillation.hpp"
#include "models/layers/embedding.hpp"
#include "models/layers/joined_norms.hpp"
#include "models/segment/documents.hpp"
#include "models/segment/torch_device.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::models {
namespace {

/// Returns `value` rounded to fp32 and then to `type`, as transformers rounds a factor that it stores as a tensor.
double rounded_to(core::dtype type, double value) {
  const auto x = static_cast<float>(value);
  if (type == core::dtype::bf16) return static_cast<float>(c10::BFloat16(x));
  if (type == core::dtype::f16) return static_cast<float>(c10::Half(x));
  return x;
}

}  // namespace

family_model::family_model(const model_spec& spec, core::dtype type, uint64_t rows, uint64_t columns,
                           const model_place& place, device::device_id device)
    : spec_(spec),
      embedding_scale_(spec.embedding_scale),
      columns_(columns),
      place_(place),
      table_(make_model_table(spec, rows, columns, core::size_of(type), place.split, place.sequence)) {
  if (spec.family->embedding_grows_with_width) embedding_scale_ = rounded_to(type, embedding_scale_);
  if (!spec.family->is_rotary()) return;
  angles_.emplace(spec.rope, spec.rotary_width, columns, type, torch_device(device));
  if (std::ranges::find(spec.rotations, rotation::local) != spec.rotations.end())
    local_angles_.emplace(spec.local_rope, spec.rotary_width, columns, type, torch_device(device));
}

head_rotation family_model::rotation_in(uint32_t unit, uint64_t columns) const {
  const auto width = static_cast<int64_t>(spec_.rotary_width);
  switch (spec_.rotation_in(unit - 1)) {
    case rotation::usual:
      return {&angles_->of(columns), width};
    case rotation::local:
      return {&local_angles_->of(columns), width};
    case rotation::none:
      break;
  }
  return {};
}

attention_shape family_model::own_heads(uint32_t unit) const {
  const model_spec own = local_block(spec_, place_.split, unit - 1);
  attention_shape out{own.heads, own.kv_heads, own.head_width};
  out.options = spec_.attention_in(unit - 1);
  if (place_.split.degree > 1 && place_.split.of(unit - 1).attention) {
    const auto dealt = core::dealt(spec_.kv_heads, place_.split.degree);
    const auto before = std::accumulate(dealt.begin(), dealt.begin() + place_.coordinate, uint64_t{0});
    out.first_head = static_cast<int64_t>(before * (spec_.heads / spec_.kv_heads));
  }
  return out;
}

void family_model::read_copies(uint32_t first) {
  if (first > table_.parameters.size()) table_.parameters.resize(first);
  table_ = core::with_copies(std::move(table_));
}

void family_model::join(const core::model_table& whole, uint32_t first_unit) {
  table_ = whole;
  first_unit_ = first_unit;
}

void family_model::learn_from(std::shared_ptr<const family_model> teacher, const kernels::distillation_terms& terms) {
  teacher_ = std::move(teacher);
  terms_ = terms;
}

std::unique_ptr<segment_run> family_model::forward(uint32_t unit, uint32_t segment, const micro_batch& batch,
                                                   const values& input, const parameter_binding& parameters) {
  TORCH_CHECK(batch.columns >= 1 && batch.columns <= columns_, "the model was built for sequences of 1 to ", columns_,
              " tokens, got ", batch.columns);
  TORCH_CHECK(batch.tokens.size() == batch.rows * (batch.columns + 1), "a micro-batch of ", batch.rows, " x ",
              batch.columns, " wants ", batch.rows * (batch.columns + 1), " tokens, got ", batch.tokens.size());
  segment_scope scope(table_, parameters, batch, unit, segment, place_, first_unit_);
  if (unit == 0 && segment == 0) {
    check_documents(batch);
    auto whole = embedding(scope);
    return norms_are_cut() ? giving_columns(std::move(whole), norm_parts(scope)) : std::move(whole);
  }
  const auto forward = [&](const values& x) -> values {
    if (unit == 0) return own_columns(scope, x);
    return unit == spec_.layers + 1 ? head(scope, segment, x) : block(scope, segment, x);
  };
  return run_segment(scope, input, forward,
                     copies_last_input(unit, segment) ? last_input::is_copied : last_input::stays);
}

// True if the segment's last input tensor consists of parts that the ranks of a tensor or sequence group have
// exchanged: forward then copies the parts into a new tensor or adds them to one, so their memory may be reused.
bool family_model::copies_last_input(uint32_t unit, uint32_t segment) const {
  if (unit == 0 || unit > spec_.layers || segment == 0) return false;
  const core::exchange_op op = table_.units[first_unit_ + unit].segments[segment - 1].output.op;
  return op == core::exchange_op::swap || op == core::exchange_op::collect || op == core::exchange_op::scatter;
}

std::unique_ptr<segment_run> family_model::embedding(segment_scope& scope) const {
  const families::family& f = *spec_.family;
  embedding_layers layers{.tokens = next_weight(scope, core::layer_kind::embedding),
                          .own = own_vocabulary(),
                          .padding = spec_.padding_token,
                          .first_position = spec_.first_position,
                          .scale = embedding_scale_,
                          .dropout = f.has_sum_norms() ? 0 : spec_.embedding_dropout};
  const auto add_positions = [&] { layers.positions = next_weight(scope, core::layer_kind::position_embedding); };
  if (!f.is_rotary() && !f.positions_are_last) add_positions();
  if (!f.names.token_types.empty()) layers.types = next_weight(scope, core::layer_kind::type_embedding);
  if (!f.is_rotary() && f.positions_are_last) add_positions();
  return run_embedding(scope, layers);
}

at::Tensor family_model::packed(segment_scope& scope, const std::vector<at::Tensor>& projected) const {
  if (!spec_.family->is_rotary()) return spec_.family->is_packed() ? projected.front() : at::cat(projected, -1);
  const attention_shape heads = own_heads(scope.unit());
  const auto three = spec_.family->is_packed() ? taken_apart(projected.front(), heads) : projected;
  at::Tensor queries = three[0], keys = three[1];
  if (spec_.family->has_query_norms()) {
    queries = normed_queries(scope, queries);
    keys = normed_queries(scope, keys);
  }
  return rotate_and_pack(scope, queries, keys, three[2], heads, rotation_in(scope.unit(), scope.batch().columns));
}

std::vector<at::Tensor> family_model::taken_apart(const at::Tensor& qkv, const attention_shape& heads) const {
  const int64_t queries = heads.heads * heads.head_width, keys = heads.kv_heads * heads.head_width;
  if (spec_.family->packed_as == families::packing::side_by_side)
    return qkv.split_with_sizes({queries, keys, keys}, -1);
  std::vector<at::Tensor> out;
  for (const at::Tensor& part : qkv.view({qkv.size(0), qkv.size(1), heads.heads, -1}).split(heads.head_width, -1))
    out.push_back(part.reshape({qkv.size(0), qkv.size(1), queries}));
  return out;
}

at::Tensor family_model::normed_queries(segment_scope& scope, const at::Tensor& heads) const {
  if (spec_.family->query_norms == families::query_norm_span::projection) return normed(scope, heads, 0).y.front();
  const at::Tensor each = heads.view({heads.size(0), heads.size(1), -1, static_cast<int64_t>(spec_.head_width)});
  return normed(scope, each, 0).y.front().view_as(heads);
}

at::Tensor family_model::mlp_output(segment_scope& scope, const std::vector<at::Tensor>& projected) const {
  if (spec_.family->has_packed_mlp()) {
    const auto both = projected.front().chunk(2, -1);
    return gated_linear(scope, both[0], both[1], spec_.act, mlp_end(scope));
  }
  return spec_.family->is_gated() ? gated_linear(scope, projected[0], projected[1], spec_.act, mlp_end(scope))
                                  : activated_linear(scope, projected.front(), spec_.act, mlp_end(scope));
}

at::Tensor family_model::add(segment_scope& scope, const at::Tensor& past, at::Tensor&& y, dropout_site site) const {
  if (spec_.family->has_end_norms()) y = normed(scope, y, 0).y.front();
  if (spec_.family->keys.residual_dropout.name.empty())
    return add_past(scope, past, std::move(y), spec_.residual_scale);
  return add_dropped(scope, past, std::move(y), site, spec_.residual_dropout);
}

values family_model::block(segment_scope& scope, uint32_t segment, const values& input) const {
  if (norms_are_cut()) return block_of_own_columns(scope, segment, input);
  const sequence_split& split = place_.sequence;
  const bool joins = joins_norms(spec_, place_.split, scope.unit() - 1);
  const uint32_t attends = split.degree == 1 ? (joins ? 2 : 1) : split.way == sequence_way::keys ? 2 : 3;
  const uint32_t of_mlp = attends + (norms_sum_of(scope).attention ? 1 : 0);
  if (segment == of_mlp) return mlp(scope, input);
  if (segment >= attends)
    return add(scope, input[0], at::Tensor(input[1]),
               segment < of_mlp ? dropout_site::attention_output : dropout_site::mlp_output);
  if (joins) return segment == 0 ? attention_before_norms(scope, input) : attention_of_joined_norms(scope, input);
  if (split.degree == 1) return attention(scope, input);
  if (segment == 0) return attention_in(scope, input);
  if (segment == 2) {
    at::Tensor y = attention_output(scope, take_heads(scope, input[1], parts(scope)));
    return after_attention(scope, input[0], std::move(y));
  }
  if (split.way == sequence_way::keys) return attention_of_own_queries(scope, input);
  return attention_of_own_heads(scope, input);
}

at::Tensor family_model::path_of(segment_scope& scope, const at::Tensor& x) const {
  return spec_.family->has_sum_norms() ? normed(scope, x, 0).y.front() : x;
}

normed_outputs family_model::attention_inputs(segment_scope& scope, const at::Tensor& x) const {
  const size_t count = spec_.family->attention_inputs();
  if (spec_.family->has_first_norms()) return normed(scope, x, count);
  at::Tensor path = path_of(scope, x);
  // If the sum of the embedding's vectors is normed, the first block computes this norm, and the embedding's dropout
  // follows it.
  if (spec_.family->has_sum_norms() && scope.unit() == 1)
    path = dropped(scope, std::move(path), dropout_site::embedding, spec_.embedding_dropout);
  return {projected(scope, path, next_linears(scope, count, panel_sums::none)), path};
}

block_split family_model::norms_sum_of(const segment_scope& scope) const {
  return norms_of_sums(spec_, place_.split, scope.unit() - 1);
}

values family_model::attention(segment_scope& scope, const at::Tensor& x) const {
  const auto [inner, past] = attention_inputs(scope, x);
  const attention_shape heads = own_heads(scope.unit());
  at::Tensor qkv = packed(scope, inner);
  if (scope.batch().map != nullptr) *scope.batch().map = attention_map(qkv, heads);
  if (scope.batch().learned_map != nullptr) qkv = learn_map(scope, qkv, heads, *scope.batch().learned_map);
  const at::Tensor mixed = self_attention(scope, qkv, heads, spec_.attention_dropout);
  return after_attention(scope, past, attention_output(scope, mixed));
}

values family_model::attention_before_norms(segment_scope& scope, const at::Tensor& x) const {
  auto [inner, past] = attention_inputs(scope, x);
  // The result is a view, because a segment must not return its input tensor itself.
  if (past.is_same(x)) past = past.view_as(past);
  const auto three = spec_.family->is_packed() ? taken_apart(inner.front(), own_heads(scope.unit())) : inner;
  return values({past, three[0], three[1], three[2], square_sums(scope, {three[0], three[1]})});
}

values family_model::attention_of_joined_norms(segment_scope& scope, const values& input) const {
  const attention_shape heads = own_heads(scope.unit());
  row_norm of_queries = next_norm(scope, norm_numbers_of(spec_)), of_keys = next_norm(scope, norm_numbers_of(spec_));
  const auto [queries, keys] =
      joined_norms(scope, {input[1], input[2]}, input[4], {std::move(of_queries), std::move(of_keys)},
                   {uint64_t{spec_.heads} * spec_.head_width, uint64_t{spec_.kv_heads} * spec_.head_width});
  const at::Tensor qkv =
      rotate_and_pack(scope, queries, keys, input[3], heads, rotation_in(scope.unit(), scope.batch().columns));
  const at::Tensor mixed = self_attention(scope, qkv, heads, spec_.attention_dropout);
  return after_attention(scope, input[0], attention_output(scope, mixed));
}

values family_model::after_attention(segment_scope& scope, const at::Tensor& past, at::Tensor&& y) const {
  if (norms_sum_of(scope).attention) return summand(scope, past, std::move(y));
  at::Tensor sum = add(scope, past, std::move(y), dropout_site::attention_output);
  if (!spec_.parallel_residual) return sum;
  at::Tensor of_mlp = mlp_sum(scope, past).y.front();
  return add_dropped(scope, sum, std::move(of_mlp), dropout_site::mlp_output, spec_.residual_dropout, added_by::all);
}

values family_model::summand(const segment_scope& scope, const at::Tensor& past, at::Tensor&& y) {
  return values({scope.leads() ? past.view_as(past) : past.detach(), std::move(y)});
}

at::Tensor family_model::attention_output(segment_scope& scope, const at::Tensor& mixed) const {
  return linear(scope, mixed, next_output(scope));
}

projection family_model::mlp_end(segment_scope& scope) {
  projection out = next_output(scope);
  out.panels = panel_sums::rounded;
  return out;
}

normed_outputs family_model::mlp_in_tiles(segment_scope& scope, const at::Tensor& x,
                                          std::optional<row_norm> norm) const {
  std::vector<projection> inputs = next_linears(scope, spec_.family->mlp_first_layers(), panel_sums::rounded);
  return tiled_mlp(scope, x,
                   {std::move(norm), std::move(inputs), spec_.act, mlp_end(scope), spec_.family->has_packed_mlp()},
                   spec_.mlp_tile_rows);
}

normed_outputs family_model::mlp_sum(segment_scope& scope, const at::Tensor& input) const {
  const bool is_normed = spec_.family->has_first_norms();
  const at::Tensor x = path_of(scope, input);
  if (spec_.mlp_tile_rows > 0)
    return mlp_in_tiles(
        scope, x, is_normed ? std::optional(next_norm(scope, norm_numbers_of(spec_))) : std::optional<row_norm>());
  const size_t count = spec_.family->mlp_first_layers();
  if (is_normed) {
    const auto [inner, past] = normed(scope, x, count, panel_sums::rounded);
    return {{mlp_output(scope, inner)}, past};
  }
  // The layers read a view of x, so that their gradients are added up before the residual path's gradient, as in row
  // tiles.
  const at::Tensor read = x.view_as(x);
  return {{mlp_output(scope, projected(scope, read, next_linears(scope, count, panel_sums::rounded)))}, x};
}

values family_model::mlp(segment_scope& scope, const at::Tensor& x) const {
  auto [y, past] = mlp_sum(scope, x);
  if (norms_sum_of(scope).mlp) return summand(scope, past, std::move(y.front()));
  return add(scope, past, std::move(y.front()), dropout_site::mlp_output);
}

values family_model::attention_in(segment_scope& scope, const at::Tensor& x) const {
  auto [inner, past] = attention_inputs(scope, x);
  // The result is a view, because a segment must not return its input tensor itself.
  if (past.is_same(x)) past = past.view_as(past);
  const at::Tensor qkv = packed(scope, inner);
  const sequence_parts exchanged = parts(scope);
  if (place_.sequence.way == sequence_way::heads) return values({past, give_heads(scope, qkv, exchanged)});
  const attention_shape heads = own_heads(scope.unit());
  const int64_t queries = heads.heads * heads.head_width;
  const auto own = qkv.split_with_sizes({queries, qkv.size(2) - queries}, 2);
  return values({past, own[0].contiguous(), give_own(scope, own[1].contiguous(), exchanged)});
}

values family_model::attention_of_own_queries(segment_scope& scope, const values& input) const {
  const at::Tensor keys = take_columns(scope, input[2], parts(scope));
  const at::Tensor mixed = self_attention(scope, input[1], keys, own_heads(scope.unit()), spec_.attention_dropout);
  return after_attention(scope, input[0], attention_output(scope, mixed));
}

sequence_parts family_model::parts(const segment_scope& scope) const {
  return {heads_of(local_block(spec_, place_.split, scope.unit() - 1), place_.sequence), place_.sequence,
          scope.batch().columns, place_.sequence_coordinate};
}

values family_model::attention_of_own_heads(segment_scope& scope, const values& input) const {
  const sequence_parts swapped = parts(scope);
  const dealt_heads& dealt = swapped.heads;
  const auto before = std::accumulate(dealt.kv.begin(), dealt.kv.begin() + swapped.own, uint64_t{0});
  const auto kv = static_cast<int64_t>(dealt.widest());
  const attention_shape whole = own_heads(scope.unit());
  attention_shape own{kv * dealt.group, kv, dealt.head_width};
  own.first_head = whole.first_head + static_cast<int64_t>(before * dealt.group);
  own.options = whole.options;
  const at::Tensor mixed = self_attention(scope, take_columns(scope, input[1], swapped), own, spec_.attention_dropout);
  return values({input[0], give_columns(scope, mixed, swapped)});
}

sequence_parts family_model::norm_parts(const segment_scope& scope) const {
  return {{}, place_.split.of_columns(), scope.batch().columns, place_.coordinate};
}

at::Tensor family_model::own_columns(segment_scope& scope, const at::Tensor& sum) const {
  const at::Tensor own = take_own(scope, sum, norm_parts(scope));
  return own.view_as(own);  // a view of the input, because a segment must not return its input tensor itself
}

values family_model::block_of_own_columns(segment_scope& scope, uint32_t segment, const values& input) const {
  if (segment == 0) return normed_columns(scope, input);
  if (segment == 2) return normed_columns(scope, add_columns(scope, input, dropout_site::attention_output));
  if (segment == 4) return add_columns(scope, input, dropout_site::mlp_output);
  const at::Tensor x = take_columns(scope, input[1], norm_parts(scope));
  at::Tensor y;
  if (segment == 1) {
    const at::Tensor qkv =
        packed(scope, projected(scope, x, next_linears(scope, spec_.family->attention_inputs(), panel_sums::none)));
    y = attention_output(scope, self_attention(scope, qkv, own_heads(scope.unit()), spec_.attention_dropout));
  } else if (spec_.mlp_tile_rows > 0) {
    y = mlp_in_tiles(scope, x, std::nullopt).y.front();
  } else {
    y = mlp_output(scope,
                   projected(scope, x, next_linears(scope, spec_.family->mlp_first_layers(), panel_sums::rounded)));
  }
  return values({input[0], give_columns(scope, y, norm_parts(scope))});
}

values family_model::normed_columns(segment_scope& scope, const at::Tensor& x) const {
  const auto [y, past] = normed(scope, x, 0);
  return values({past, give_own(scope, y.front(), norm_parts(scope))});
}

std::vector<at::Tensor> family_model::projected(segment_scope& scope, const at::Tensor& x,
                                                std::vector<projection> layers) {
  std::vector<at::Tensor> out;
  for (const projection& p : layers) out.push_back(linear(scope, x, p));
  return out;
}

at::Tensor family_model::add_columns(segment_scope& scope, const values& input, dropout_site site) const {
  at::Tensor own = take_own(scope, input[1], norm_parts(scope));
  // A norm keeps its input until backward, but the memory of the exchanged sum is freed after forward.
  if (spec_.family->has_end_norms() && own.is_same(input[1])) own = own.clone();
  return add(scope, input[0], std::move(own), site);
}

at::Tensor family_model::head_input(segment_scope& scope, const at::Tensor& x) const {
  if (!spec_.family->has_head_transform()) return x;
  const at::Tensor path = path_of(scope, x);
  return activate(linear(scope, path, next_linear(scope)), spec_.head_act);
}

at::Tensor family_model::logits(segment_scope& scope, const at::Tensor& hidden) const {
  const at::Tensor x = head_input(scope, hidden);
  row_norm norm = next_norm(scope, norm_numbers_of(spec_));
  projection layer = next_linear(scope);
  // Sums rows in panels, so that the bits of the result equal those of a head that is computed in row tiles.
  if (own_vocabulary().are_all()) layer.panels = panel_sums::wide;
  const at::Tensor products = normed_linear(scope, as_rows(x), std::move(norm), {std::move(layer)}).y.front();
  return formed_logits(scope, products, spec_.logits);
}

at::Tensor family_model::logits_of_normed(segment_scope& scope, const at::Tensor& y) const {
  return formed_logits(scope, linear(scope, as_rows(y), next_linear(scope)), spec_.logits);
}

// True if the head is computed in row tiles. False for a batch that requests the logits, which are then all in memory.
bool family_model::tiles_head(const micro_batch& batch) const {
  return spec_.head_tile_rows > 0 && batch.logits == nullptr && batch.computes_loss;
}

double family_model::loss_factor(const segment_scope& scope) const {
  const uint64_t given = static_cast<uint64_t>(scope.columns().count()) * place_.sequence.degree;
  return static_cast<double>(given) / static_cast<double>(scope.batch().columns) * scope.batch().loss_factor;
}

kernels::loss_form family_model::loss_of_rows(const micro_batch& batch) const {
  if (!batch.training) return {};
  kernels::loss_form out = spec_.loss;
  out.vocabulary = spec_.vocabulary;
  return out;
}

std::optional<taught_head> family_model::taught(segment_scope& scope) const {
  const at::Tensor* hidden = scope.batch().taught;
  if (teacher_ == nullptr || !scope.batch().training) return std::nullopt;
  TORCH_CHECK(hidden != nullptr && hidden->defined(), "a model learns from a teacher that has computed nothing");
  row_norm norm = next_norm(scope, norm_numbers_of(teacher_->spec_));
  projection layer = next_linear(scope);
  return taught_head{*hidden, std::move(norm), std::move(layer), teacher_->spec_.logits, terms_};
}

values family_model::head(segment_scope& scope, uint32_t segment, const values& input) const {
  if (!norms_are_cut()) {
    if (segment == 1) return loss(scope, input[0], input);
    if (tiles_head(scope.batch())) {
      const at::Tensor x = head_input(scope, input);
      row_norm norm = next_norm(scope, norm_numbers_of(spec_));
      projection layer = next_linear(scope);
      return tiled_cross_entropy(scope, x, std::move(norm), std::move(layer), spec_.logits, loss_of_rows(scope.batch()),
                                 spec_.head_tile_rows, loss_factor(scope), taught(scope));
    }
    return losses(scope, logits(scope, input), input.first());
  }
  if (segment == 2) return loss(scope, input[0], input);
  if (segment == 0) return normed_columns(scope, input).last();
  const at::Tensor x = take_columns(scope, input, norm_parts(scope));
  return losses(scope, logits_of_normed(scope, x), x);
}

values family_model::losses(segment_scope& scope, const at::Tensor& of_tokens, const at::Tensor& hidden) const {
  const micro_batch& batch = scope.batch();
  const vocabulary_rows own = own_vocabulary();
  if (batch.logits != nullptr)
    *batch.logits = of_tokens.narrow(1, 0, own.count).reshape({hidden.size(0), hidden.size(1), own.count});
  if (own.are_all()) return loss(scope, of_tokens, {});
  const at::Tensor statistics = batch.computes_loss
                                    ? row_statistics(scope, of_tokens, own, loss_of_rows(batch))
                                    : at::zeros({of_tokens.size(0), static_cast<int64_t>(kernels::row_statistics)},
                                                of_tokens.options().dtype(sum_dtype(of_tokens.scalar_type())));
  return values({of_tokens, statistics});
}

// Computes this rank's contribution to the loss from the logits of its own columns (tokens). It is scaled by
// loss_factor(), so that the mean over the ranks of a sequence group is the mean over all columns.
values family_model::loss(const segment_scope& scope, const at::Tensor& of_tokens, const values& input) const {
  if (!scope.batch().computes_loss) return at::zeros({}, of_tokens.options().dtype(at::kFloat));
  const vocabulary_rows own = own_vocabulary();
  TORCH_CHECK(own.are_all() || input.size() == 2, "the loss wants logits and statistics, got ", input.size(),
              " tensors");
  const kernels::loss_form form = loss_of_rows(scope.batch());
  const at::Tensor mean = own.are_all() ? cross_entropy(scope, of_tokens, form)
                                        : joined_cross_entropy(scope, of_tokens, input[1], own, form);
  const double factor = loss_factor(scope);
  return factor == 1 ? mean : mean.mul(factor);
}

std::vector<float> family_model::next_token_logits(const micro_batch& batch, const at::Tensor& hidden,
                                                   const parameter_binding& parameters) {
  const at::NoGradGuard no_grad;
  segment_scope scope(table_, parameters, batch, spec_.layers + 1, table_.logits_segment(), place_, first_unit_);
  if (scope.columns().end() != static_cast<int64_t>(batch.columns) || scope.columns().runs.back().count == 0) return {};
  const at::Tensor all = norms_are_cut() ? take_columns(scope, hidden, norm_parts(scope)) : hidden;
  const at::Tensor last = all.select(0, 0).narrow(0, all.size(1) - 1, 1);
  const at::Tensor of_last = norms_are_cut() ? logits_of_normed(scope, last) : logits(scope, last);
  const at::Tensor wide = of_last.narrow(1, 0, own_vocabulary().count).to(at::kCPU, at::kFloat).contiguous();
  return {wide.const_data_ptr<float>(), wide.const_data_ptr<float>() + wide.numel()};
}

}  // namespace troupe::models
