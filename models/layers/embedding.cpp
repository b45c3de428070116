// The embedding's forward, which looks up vectors, and its backward, which sums the gradients of each token's positions
// in the order that came with the batch, in fp32 and rounded once.
#include "models/layers/embedding.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "models/layers/dropout.hpp"
#include "models/segment/batch_numbers.hpp"
#include "models/segment/columns.hpp"
#include "models/segment/operations.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::models {
namespace {

/// Returns the input tokens in the columns `own` of every row, on device `where`. Throws if an input or target is not a
/// token of the vocabulary.
at::Tensor inputs_of(const micro_batch& batch, int64_t vocabulary, const core::column_set& own, at::Device where) {
  for (size_t i = 0; i < batch.tokens.size(); ++i)
    TORCH_CHECK(batch.tokens[i] >= 0 && batch.tokens[i] < vocabulary, "wanted a token from 0 to ", vocabulary - 1,
                ", got ", batch.tokens[i], " at row ", i / (batch.columns + 1), ", position ", i % (batch.columns + 1));
  return columns_of(tokens_on(batch, where), 1, own).contiguous();
}

/// Throws if an input is the token `padding`, for families whose positions are numbered from that token's number on:
/// the padding token has no position.
void check_no_padding(const micro_batch& batch, int64_t padding) {
  const uint64_t width = batch.columns + 1;
  for (size_t i = 0; i < batch.tokens.size(); ++i)
    TORCH_CHECK(batch.tokens[i] != padding || i % width == batch.columns, "wanted texts without the padding token ",
                padding, ", which has no position, got it at row ", i / width, ", position ", i % width);
}

/// Returns the embedding vectors of the tokens `ids` (B, T). On a rank that has only the rows `own` of the vocabulary,
/// vectors of other tokens are zero.
at::Tensor vectors_of(const at::Tensor& table, const at::Tensor& ids, const vocabulary_rows& own) {
  if (own.are_all()) return at::embedding(table, ids);
  const at::Tensor places = ids.sub(own.first);
  const at::Tensor others = places.lt(0).logical_or_(places.ge(own.count));
  return at::embedding(table, places.masked_fill(others, 0)).masked_fill_(others.unsqueeze(-1), 0);
}

/// The rows of an embedding whose gradient is written.
struct gradient_rows {
  int64_t first = 0, count = 0;
  std::optional<uint32_t> untrained{};  ///< row that gets the gradient 0 whatever its inputs; none: there is none
};

/// Writes the gradient of the embedding rows `of`: row id gets the sum of those rows of `g` (N, C) whose input is id;
/// zero for ids that do not occur.
void write_row_gradient(const sink_slot& slot, const weight& w, const core::token_order* order,
                        const ordered_places& there, const at::Tensor& g, const gradient_rows& of) {
  if (!w.trainable) return;
  const at::Tensor rows = g.reshape({-1, g.size(-1)}).contiguous();
  TORCH_CHECK(order != nullptr && order->order.size() == static_cast<size_t>(rows.size(0)), "the gradient of ", w.name,
              " wants the order of ", rows.size(0), " inputs, got ", order == nullptr ? 0 : order->order.size());
  const auto from = std::ranges::lower_bound(order->ids, of.first);
  const auto to = std::ranges::lower_bound(order->ids, of.first + of.count);
  const auto groups = static_cast<uint64_t>(to - from);
  const int64_t before = from - order->ids.begin();
  const at::Tensor ids = there.ids.narrow(0, before, to - from);
  const at::Tensor sums = at::empty({ids.size(0), rows.size(1)}, rows.options());
  const int64_t* first_group = there.begin.const_data_ptr<int64_t>() + before;
  kernels_for(rows).grouped_sums(bytes_of(rows), core_dtype(rows.scalar_type()), static_cast<uint64_t>(rows.size(1)),
                                 {there.order.const_data_ptr<int64_t>(), first_group, groups}, bytes_in(sums));
  if (of.untrained) {
    const int64_t row = *of.untrained;
    const auto found = std::lower_bound(from, to, row);
    if (found != to && *found == row) sums.select(0, found - from).zero_();
  }
  gradient_writer(slot, w).write_rows(ids.sub(of.first), sums);
}

void write_zeros(const sink_slot& slot, const weight& w) {
  gradient_writer writer(slot, w);
  writer.out().zero_();
  writer.commit();
}

/// Writes the gradient of the position embedding, whose row `first` is that of column 0: the row of each of the columns
/// `own` gets the sum over samples; rows of unused positions get zero.
void write_position_gradient(const sink_slot& slot, const weight& w, const core::column_set& own, int64_t first,
                             const at::Tensor& g) {
  const at::Tensor used = columns_of(at::arange(first, first + own.end(), g.options().dtype(at::kLong)), 0, own);
  const at::Tensor sums = g.sum(at::IntArrayRef{0}, /*keepdim=*/false, sum_dtype(g.scalar_type()));
  gradient_writer(slot, w).write_rows(used, sums.to(g.scalar_type()));
}

/// Writes the gradient of the embedding of types: the row of type 0, which all tokens have, gets the sum over all
/// tokens.
void write_type_gradient(const sink_slot& slot, const weight& w, const at::Tensor& g) {
  const at::Tensor sums = g.sum(at::IntArrayRef{0, 1}, /*keepdim=*/false, sum_dtype(g.scalar_type()));
  const at::Tensor row = at::arange(1, g.options().dtype(at::kLong));
  gradient_writer(slot, w).write_rows(row, sums.to(g.scalar_type()).unsqueeze(0));
}

class embedding_run final : public segment_run {
 public:
  embedding_run(at::Tensor output, const segment_scope& scope, embedding_layers layers, dropout_masks masks)
      : output_(std::move(output)),
        by_token_(scope.batch().by_token),
        by_column_(scope.batch().by_column),
        tokens_there_(by_token_on(scope.batch(), output_.first().device())),
        columns_there_(by_column_on(scope.batch(), output_.first().device())),
        all_columns_(scope.batch().columns),
        columns_(scope.columns()),
        with_documents_(!scope.batch().document_start.empty()),
        leads_(scope.leads()),
        layers_(std::move(layers)),
        masks_(masks) {}

  [[nodiscard]] const values& outputs() const override { return output_; }

  void release_outputs() override { output_ = {}; }

  values backward(const values& gradient, gradient_sink& sink) override {
    const at::NoGradGuard no_grad;
    const sink_slot slot{&sink};
    at::Tensor g = gradient;
    if (masks_.active()) {
      g = g.clone(at::MemoryFormat::Contiguous);
      masks_.apply_rows(g);
    }
    const double scale = layers_.scale;
    write_ordered(slot, layers_.tokens, by_token_, tokens_there_, scale == 1 ? g : g.mul(scale),
                  {layers_.own.first, layers_.own.count, layers_.padding});
    if (layers_.types) add_types(slot, g);
    if (layers_.positions) add_positions(slot, g);
    return {};
  }

  // Only stores the gradient, because an embedding has no input to differentiate; the weight part does all work.
  values backward_input(const values& gradient) override {
    gradient_ = gradient;
    output_ = {};
    return {};
  }
  void backward_weight(gradient_sink& sink) override {
    TORCH_CHECK(gradient_.defined(), "the weight part of a backward whose input part has not run");
    backward(std::exchange(gradient_, {}), sink);
  }

 private:
  void write_ordered(const sink_slot& slot, const weight& w, const core::token_order* order,
                     const ordered_places& there, const at::Tensor& g, const gradient_rows& of) const {
    if (columns_.count() == static_cast<int64_t>(all_columns_) || order == nullptr)
      return write_row_gradient(slot, w, order, there, g, of);
    const auto own = core::order_within(*order, all_columns_, columns_);
    write_row_gradient(slot, w, &own, views_of(own), g, of);
  }
  void add_types(const sink_slot& slot, const at::Tensor& g) const {
    leads_ ? write_type_gradient(slot, *layers_.types, g) : write_zeros(slot, *layers_.types);
  }
  void add_positions(const sink_slot& slot, const at::Tensor& g) const {
    const weight& w = *layers_.positions;
    const int64_t first = layers_.first_position;
    if (!leads_)
      write_zeros(slot, w);
    else if (with_documents_)
      write_ordered(slot, w, by_column_, columns_there_, g, {-first, w.tensor.size(0)});
    else
      write_position_gradient(slot, w, columns_, first, g);
  }

  values output_;
  at::Tensor gradient_;  // gradient of the output, kept from the input part to the weight part of a split backward
  const core::token_order *by_token_, *by_column_;
  // The inputs ordered by token and by column, on the device where the model computes.
  ordered_places tokens_there_, columns_there_;
  uint64_t all_columns_;
  core::column_set columns_;
  bool with_documents_, leads_;
  embedding_layers layers_;
  dropout_masks masks_;
};

}  // namespace

std::unique_ptr<segment_run> run_embedding(segment_scope& scope, const embedding_layers& layers) {
  const at::NoGradGuard no_grad;
  const dropout_masks masks(scope, dropout_site::embedding, layers.dropout);
  const at::Device where = layers.tokens.tensor.device();
  const at::Tensor inputs = inputs_of(scope.batch(), layers.own.whole, scope.columns(), where);
  if (layers.first_position > 0 && layers.padding) check_no_padding(scope.batch(), *layers.padding);
  at::Tensor y = vectors_of(layers.tokens.bound(), inputs, layers.own);
  if (layers.scale != 1) y.mul_(layers.scale);
  if (layers.types && scope.leads()) y.add_(layers.types->bound().select(0, 0));
  const auto& positions = layers.positions;
  if (!scope.leads()) {
    // The first tensor-parallel rank adds the position embeddings; the output is summed over these ranks.
  } else if (positions && !scope.batch().document_start.empty()) {
    const at::Tensor places = columns_of(places_on(scope.batch(), where), 1, scope.columns());
    y.add_(at::embedding(positions->bound(), layers.first_position == 0 ? places : places.add(layers.first_position)));
  } else if (positions) {
    y.add_(columns_of(positions->bound(), 0, scope.columns(), layers.first_position));
  }
  masks.apply_rows(y);
  return std::make_unique<embedding_run>(std::move(y), scope, layers, masks);
}

}  // namespace troupe::models
