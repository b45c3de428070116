#include "job/tensor/tensor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

namespace troupe::job {
namespace {

constexpr const char* degree_key = "parallel.tensor";

}  // namespace

core::result<named_split> choose_split(const config::job_config& c, const models::model_spec& spec,
                                       const core::model_table& whole, uint64_t columns) {
  named_split out{{.degree = c.parallel.tensor}, {}};
  if (out.split.degree == 1) return out;
  if (c.tensor_parallel.chooses()) {
    auto named = split_of(c.tensor_parallel, whole, std::string(spec.family->model_type), out.split.degree);
    if (!named) return named;
    out = std::move(*named);
  }
  if (c.tensor_parallel.vocabulary_head) out.split.vocabulary = *c.tensor_parallel.vocabulary_head;
  // The distillation loss needs all logits of a row on one rank, so the family's split of the vocabulary is turned off;
  // a split that the configuration requests is refused below.
  if (c.distillation.enabled && !c.tensor_parallel.vocabulary_head && !c.tensor_parallel.chooses())
    out.split.vocabulary = false;
  if (c.distillation.enabled && out.split.vocabulary)
    return core::fail(core::error_kind::bad_input,
                      "tensor_parallel.vocab_parallel_lm_head: cannot be combined with distillation; set it to false");
  out.split.grain = c.tensor_parallel.grain;
  out.split.norms = c.parallel.sharded_norms;
  if (c.distillation.enabled && out.split.norms)
    return core::fail(core::error_kind::bad_input,
                      "parallel.sharded_norms: cannot be combined with distillation yet; set it to false");
  if (auto ok = models::check_split(spec, out.split, columns); !ok) return core::fail(ok.error().at_key(degree_key));
  out.origins.resize(whole.parameters.size(), cut_origin::family);
  return out;
}

core::result<models::sequence_split> choose_sequence(const config::job_config& c, const models::model_spec& spec,
                                                     const models::tensor_split& tensor, uint64_t columns) {
  const uint32_t context = c.parallel.context;
  const models::sequence_split out = context > 1 ? models::sequence_split{context, models::sequence_way::keys}
                                                 : models::sequence_split{c.parallel.sequence};
  if (context > 1 && c.parallel.sequence > 1)
    return core::fail(
        core::error_kind::bad_input,
        fmt::format("parallel.context: cannot be combined with parallel.sequence yet; set one of them to 1, got {}",
                    context));
  if (out.degree == 1) return out;
  const char* const key = context > 1 ? "parallel.context" : "parallel.sequence";
  for (uint32_t block = 0; block < spec.layers; ++block) {
    // In a block with a parallel residual, the last segment would have two gradients to exchange: the gradient of its
    // input over the tensor ranks, and the gradient of the exchanged keys or heads over the sequence ranks.
    if (spec.parallel_residual && tensor.degree > 1 && tensor.of(block).mlp)
      return core::fail(
          core::error_kind::bad_input,
          fmt::format("{}: cannot be combined with parallel.tensor yet for a model whose attention and MLP are "
                      "computed together (use_parallel_residual); set one of them to 1, got {}",
                      key, out.degree));
    // The rows of a sum of squares would be divided over the sequence ranks, and the exchanges of both groups follow
    // one segment.
    if (models::joins_norms(spec, tensor, block))
      return core::fail(
          core::error_kind::bad_input,
          fmt::format(
              "{}: cannot be combined with parallel.tensor yet for a {} model with divided attention, whose norms "
              "of queries and keys span all heads; set one of them to 1, or leave attention whole by "
              "tensor_parallel.partition_config, got {}",
              key, spec.family->model_type, out.degree));
    if (auto ok = models::check_sequence(models::local_block(spec, tensor, block), columns, out); !ok)
      return core::fail(ok.error().at_key(key));
  }
  return out;
}

core::result<void> check_exchange_pieces(const config::job_config& c, const core::model_table& local) {
  const uint32_t pieces = c.parallel.exchange_pieces;
  uint64_t rows = 0;
  for (const auto& u : local.units)
    for (const auto& s : u.segments) rows = std::max(rows, s.output.rows);
  if (pieces == 1 || pieces <= rows) return {};
  const std::string wanted = rows == 0 ? "wanted 1, because the model has no row-parallel layer of a Troupe family"
                                       : fmt::format("wanted at most the {} rows of a micro-batch", rows);
  return core::fail(core::error_kind::bad_input,
                    fmt::format("tensor_parallel.exchange_pieces: {}, got {}", wanted, pieces));
}

}  // namespace troupe::job
