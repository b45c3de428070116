// The order of units and segments, and generation's last step.
#include "models/families/family_model.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <numeric>

#include "core/tied_copies.hpp"
#include "kernels/cross_entropy.hpp"
#include "models/layers/documents.hpp"
#include "models/layers/torch_dtype.hpp"

namespace troupe::models {

family_model::family_model(const model_spec& spec, core::dtype type, uint64_t rows, uint64_t columns,
                           const tensor_place& place)
    : spec_(spec),
      columns_(columns),
      place_(place),
      table_(make_model_table(spec, rows, columns, core::size_of(type), place.split)) {}

attention_shape family_model::own_heads(segment_scope& scope) const {
  attention_shape out = next_attention(scope);
  if (place_.split.degree > 1 && place_.split.of(scope.unit() - 1).attention) {
    const auto dealt = core::dealt(spec_.kv_heads, place_.split.degree);
    const auto before = std::accumulate(dealt.begin(), dealt.begin() + place_.coordinate, uint64_t{0});
    out.first_head = static_cast<int64_t>(before * (spec_.heads / spec_.kv_heads));
  }
  return out;
}

void family_model::read_copies() { table_ = core::with_copies(std::move(table_)); }

at::Tensor family_model::logits(segment_scope& scope, const at::Tensor& x) const {
  return normed(scope, as_rows(x)).y.front();
}

std::unique_ptr<segment_run> family_model::forward(uint32_t unit, uint32_t segment, const micro_batch& batch,
                                                   const values& input, const parameter_binding& parameters) {
  TORCH_CHECK(batch.columns >= 1 && batch.columns <= columns_, "the model was built for sequences of 1 to ", columns_,
              " tokens, got ", batch.columns);
  TORCH_CHECK(batch.tokens.size() == batch.rows * (batch.columns + 1), "a micro-batch of ", batch.rows, " x ",
              batch.columns, " wants ", batch.rows * (batch.columns + 1), " tokens, got ", batch.tokens.size());
  segment_scope scope(table_, parameters, batch, unit, segment, place_.coordinate);
  if (unit == 0) {
    check_documents(batch);
    return embedding(scope);
  }
  return run_segment(scope, input.first(), [&](const at::Tensor& x) -> values {
    if (unit == spec_.layers + 1) return segment == 0 ? head(scope, x) : loss(scope, x, input);
    return segment == 0 ? attention(scope, x) : mlp(scope, x);
  });
}

values family_model::head(segment_scope& scope, const at::Tensor& x) const {
  const micro_batch& batch = scope.batch();
  const vocabulary_rows own = own_vocabulary();
  const at::Tensor of_tokens = logits(scope, x);
  if (batch.logits != nullptr)
    *batch.logits = of_tokens.narrow(1, 0, own.count).reshape({x.size(0), x.size(1), own.count});
  if (own.are_all()) return loss(scope, of_tokens, {});
  const at::Tensor statistics = batch.computes_loss
                                    ? row_statistics(scope, of_tokens, own)
                                    : at::zeros({of_tokens.size(0), static_cast<int64_t>(kernels::row_statistics)},
                                                of_tokens.options().dtype(sum_dtype(of_tokens.scalar_type())));
  return values({of_tokens, statistics});
}

values family_model::loss(const segment_scope& scope, const at::Tensor& of_tokens, const values& input) const {
  if (!scope.batch().computes_loss) return at::zeros({}, of_tokens.options().dtype(at::kFloat));
  if (const vocabulary_rows own = own_vocabulary(); !own.are_all()) {
    TORCH_CHECK(input.size() == 2, "the loss wants logits and statistics, got ", input.size(), " tensors");
    return joined_cross_entropy(scope, of_tokens, input[1], own);
  }
  return cross_entropy(scope, of_tokens);
}

std::vector<float> family_model::next_token_logits(const micro_batch& batch, const at::Tensor& hidden,
                                                   const parameter_binding& parameters) {
  const at::NoGradGuard no_grad;
  segment_scope scope(table_, parameters, batch, spec_.layers + 1, 0);
  const at::Tensor last = hidden.select(0, 0).narrow(0, hidden.size(1) - 1, 1);
  const at::Tensor wide =
      logits(scope, last).narrow(1, 0, own_vocabulary().count).to(at::kCPU, at::kFloat).contiguous();
  return {wide.const_data_ptr<float>(), wide.const_data_ptr<float>() + wide.numel()};
}

}  // namespace troupe::models
