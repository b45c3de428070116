// Looks vectors up, and adds their gradients in the order of the tokens, each row summed in fp32 and rounded once.
#include "models/layers/embedding.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <vector>

#include "models/layers/bytes.hpp"
#include "models/layers/dropout.hpp"
#include "models/layers/operations.hpp"
#include "models/layers/torch_dtype.hpp"

namespace troupe::models {
namespace {

/// The first T tokens of every row, once it is sure that inputs and targets are tokens of the vocabulary.
at::Tensor inputs_of(const micro_batch& batch, int64_t vocabulary) {
  for (size_t i = 0; i < batch.tokens.size(); ++i)
    TORCH_CHECK(batch.tokens[i] >= 0 && batch.tokens[i] < vocabulary, "a token from 0 to ", vocabulary - 1,
                " was wanted, got ", batch.tokens[i], " at row ", i / (batch.columns + 1), ", position ",
                i % (batch.columns + 1));
  const auto rows = static_cast<int64_t>(batch.rows), columns = static_cast<int64_t>(batch.columns);
  at::Tensor inputs = at::empty({rows, columns}, at::kLong);
  auto* out = inputs.mutable_data_ptr<int64_t>();
  for (int64_t r = 0; r < rows; ++r) std::copy_n(batch.tokens.data() + r * (columns + 1), columns, out + r * columns);
  return inputs;
}

/// The place of every input inside its document, (B, T).
at::Tensor positions_of(const micro_batch& batch) {
  at::Tensor positions = at::empty({static_cast<int64_t>(batch.rows), static_cast<int64_t>(batch.columns)}, at::kLong);
  auto* out = positions.mutable_data_ptr<int64_t>();
  for (size_t i = 0; i < batch.document_start.size(); ++i)
    out[i] = static_cast<int64_t>(i % batch.columns) - static_cast<int64_t>(batch.document_start[i]);
  return positions;
}

/// gradient[id] = sum of the rows of `g` (N, C) whose token is `id`; zero for tokens that do not occur.
void write_token_gradient(const sink_slot& slot, const weight& w, const at::Tensor& inputs, const at::Tensor& g) {
  const at::Tensor rows = g.reshape({-1, g.size(-1)}).contiguous();
  const int64_t count = rows.size(0);
  const int64_t* ids = inputs.const_data_ptr<int64_t>();
  std::vector<int64_t> order(static_cast<size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return ids[a] < ids[b]; });

  const auto same_token = [&](int64_t a, int64_t b) { return ids[a] == ids[b]; };
  std::vector<int64_t> distinct;
  std::unique_copy(order.begin(), order.end(), std::back_inserter(distinct), same_token);
  at::Tensor used = at::empty({static_cast<int64_t>(distinct.size())}, at::kLong);
  std::vector<int64_t> begin;
  for (size_t i = 0; i < order.size(); ++i)
    if (i == 0 || !same_token(order[i - 1], order[i])) {
      used.mutable_data_ptr<int64_t>()[begin.size()] = ids[order[i]];
      begin.push_back(static_cast<int64_t>(i));
    }
  begin.push_back(count);
  at::Tensor sums = at::empty({used.size(0), rows.size(1)}, rows.options());
  kernels_for(rows).grouped_sums(bytes_of(rows), core_dtype(rows.scalar_type()), static_cast<uint64_t>(rows.size(1)),
                                 {order.data(), begin.data(), distinct.size()}, bytes_in(sums));
  gradient_writer(slot, w).write_rows(used, sums);
}

/// Positions 0 .. T-1 each get the sum over rows; those never used get zero.
void write_position_gradient(const sink_slot& slot, const weight& w, const at::Tensor& g) {
  const at::Tensor used = at::arange(g.size(1), at::kLong);
  const at::Tensor sums = g.sum(at::IntArrayRef{0}, /*keepdim=*/false, sum_dtype(g.scalar_type()));
  gradient_writer(slot, w).write_rows(used, sums.to(g.scalar_type()));
}

class embedding_run final : public segment_run {
 public:
  embedding_run(at::Tensor output, at::Tensor inputs, at::Tensor places, weight tokens, std::optional<weight> positions,
                dropout_masks masks)
      : output_(std::move(output)),
        inputs_(std::move(inputs)),
        places_(std::move(places)),
        tokens_(std::move(tokens)),
        positions_(std::move(positions)),
        masks_(masks) {}

  [[nodiscard]] const at::Tensor& output() const override { return output_; }

  at::Tensor backward(const at::Tensor& gradient, gradient_sink& sink) override {
    const at::NoGradGuard no_grad;
    const sink_slot slot{&sink};
    at::Tensor g = gradient;
    if (masks_.active()) {
      g = gradient.clone(at::MemoryFormat::Contiguous);
      masks_.apply_rows(g);
    }
    write_token_gradient(slot, tokens_, inputs_, g);
    if (positions_ && places_.defined()) write_token_gradient(slot, *positions_, places_, g);
    if (positions_ && !places_.defined()) write_position_gradient(slot, *positions_, g);
    return {};
  }

 private:
  at::Tensor output_, inputs_;
  at::Tensor places_;  // of the inputs in their documents; undefined where each row is one
  weight tokens_;
  std::optional<weight> positions_;
  dropout_masks masks_;
};

}  // namespace

std::unique_ptr<segment_run> run_embedding(segment_scope& scope, const weight& tokens,
                                           const std::optional<weight>& positions, float dropout) {
  const at::NoGradGuard no_grad;
  const dropout_masks masks(scope, dropout_site::embedding, dropout);
  at::Tensor inputs = inputs_of(scope.batch(), tokens.tensor.size(0));
  at::Tensor y = at::embedding(tokens.bound(), inputs);
  at::Tensor places;
  if (positions && !scope.batch().document_start.empty()) {
    places = positions_of(scope.batch());
    y.add_(at::embedding(positions->bound(), places));
  } else if (positions) {
    y.add_(positions->bound().narrow(0, 0, inputs.size(1)));
  }
  masks.apply_rows(y);
  return std::make_unique<embedding_run>(std::move(y), std::move(inputs), std::move(places), tokens, positions, masks);
}

}  // namespace troupe::models
