// Cross-entropy over a vocabulary, in fp32, with little memory: besides the logits, one number per row is kept for
// backward, and the gradient overwrites the logits.
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include "core/token_order.hpp"
#include "kernels/layers/cross_entropy.hpp"
#include "models/layers/functions.hpp"
#include "models/segment/batch_numbers.hpp"
#include "models/segment/columns.hpp"
#include "models/segment/function_node.hpp"
#include "models/segment/operations.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::models {
namespace {

/// Returns the address of the rows' weights; null if they have none.
const float* numbers_of(const at::Tensor& weights) {
  return weights.defined() ? weights.const_data_ptr<float>() : nullptr;
}

struct cross_entropy_node final : function_node {
  at::Tensor logits, log_sums, targets;  // logits (N, V), logarithms of the softmax's sums (N), targets (N)
  at::Tensor weights;                    // factor of each row's loss (N); undefined: 1
  // Number of vocabulary columns of this rank, with which each row of `logits` begins; padding follows them.
  uint64_t own = 0;
  kernels::loss_form form;

  gradient_list apply(gradient_list&& gradients) override {
    const at::Tensor gradient = std::exchange(logits, {});
    const at::Tensor wide = gradients[0].to(log_sums.scalar_type()).contiguous();
    kernels_for(gradient).cross_entropy_backward(
        form, numbers_of(weights), bytes_in(gradient), core_dtype(gradient.scalar_type()),
        static_cast<uint64_t>(gradient.size(0)), own, static_cast<uint64_t>(gradient.size(1)),
        targets.const_data_ptr<int64_t>(), bytes_of(log_sums), bytes_of(wide), static_cast<uint64_t>(gradient.size(0)));
    return {gradient};
  }
  void release_variables() override {
    logits.reset();
    log_sums.reset();
    targets.reset();
    weights.reset();
  }
  [[nodiscard]] std::string name() const override { return "cross_entropy"; }
};

/// Logits, targets and weights of a micro-batch, and memory for its loss and for the logarithms of the softmax's sums,
/// which backward needs.
struct loss_parts {
  at::Tensor rows, targets, weights, log_sums, loss;

  loss_parts(const segment_scope& scope, const at::Tensor& logits, const vocabulary_rows& own)
      : rows(logits.detach().contiguous()),
        targets(targets_of(scope, own.whole, rows)),
        weights(weights_of(scope, rows)) {
    if (own.first > 0) targets = targets.sub(own.first);
    log_sums = at::empty({rows.size(0)}, rows.options().dtype(sum_dtype(rows.scalar_type())).requires_grad(false));
    loss = at::empty({}, log_sums.options());
  }
};

at::Tensor with_history(const segment_scope& scope, const at::Tensor& logits, loss_parts&& made, int64_t own,
                        const kernels::loss_form& form) {
  if (!wants_node(logits)) return made.loss;
  auto node = std::make_shared<cross_entropy_node>();
  node->logits = std::move(made.rows);
  node->log_sums = std::move(made.log_sums);
  node->targets = std::move(made.targets);
  node->weights = std::move(made.weights);
  node->own = static_cast<uint64_t>(own);
  node->form = form;
  attach({&made.loss}, std::move(node), scope, {logits});
  return made.loss;
}

/// Returns the targets that the batch gives for the scope's columns.
at::Tensor given_targets(const segment_scope& scope, int64_t vocabulary, const at::Tensor& of_rows) {
  const micro_batch& batch = scope.batch();
  TORCH_CHECK(batch.targets.size() == batch.rows * batch.columns, "a micro-batch of ", batch.rows, " x ", batch.columns,
              " wants ", batch.rows * batch.columns, " targets or none, got ", batch.targets.size());
  for (uint64_t i = 0; i < batch.targets.size(); ++i)
    TORCH_CHECK(batch.targets[i] == core::no_target || (batch.targets[i] >= 0 && batch.targets[i] < vocabulary),
                "wanted a target from 0 to ", vocabulary - 1, ", got ", batch.targets[i], " at row ", i / batch.columns,
                ", position ", i % batch.columns);
  const at::Tensor own = columns_of(targets_on(batch, of_rows.device()), 1, scope.columns()).reshape({-1});
  TORCH_CHECK(own.size(0) == of_rows.size(0), "logits of ", of_rows.size(0), " tokens for ", own.size(0), " targets");
  return own;
}

}  // namespace

at::Tensor targets_of(const segment_scope& scope, int64_t vocabulary, const at::Tensor& of_rows) {
  const micro_batch& batch = scope.batch();
  if (!batch.targets.empty()) return given_targets(scope, vocabulary, of_rows);
  const uint64_t width = batch.columns + 1;
  for (uint64_t i = 0; i < batch.tokens.size(); ++i)
    TORCH_CHECK(i % width == 0 || (batch.tokens[i] >= 0 && batch.tokens[i] < vocabulary), "wanted a target from 0 to ",
                vocabulary - 1, ", got ", batch.tokens[i], " at row ", i / width, ", position ", i % width - 1);
  const at::Tensor own = columns_of(tokens_on(batch, of_rows.device()), 1, scope.columns(), 1).reshape({-1});
  TORCH_CHECK(own.size(0) == of_rows.size(0), "logits of ", of_rows.size(0), " tokens for ", own.size(0), " targets");
  return own;
}

at::Tensor weights_of(const segment_scope& scope, const at::Tensor& of_rows) {
  const micro_batch& batch = scope.batch();
  if (batch.weights.empty()) return {};
  TORCH_CHECK(batch.weights.size() == batch.rows * batch.columns, "a micro-batch of ", batch.rows, " x ", batch.columns,
              " wants ", batch.rows * batch.columns, " weights or none, got ", batch.weights.size());
  TORCH_CHECK(of_rows.device().is_cpu(), "weights of tokens are for the CPU alone");
  const at::Tensor all =
      at::from_blob(const_cast<float*>(batch.weights.data()),
                    {static_cast<int64_t>(batch.rows), static_cast<int64_t>(batch.columns)}, at::kFloat);
  const at::Tensor own = columns_of(all, 1, scope.columns()).reshape({-1}).contiguous();
  TORCH_CHECK(own.size(0) == of_rows.size(0), "logits of ", of_rows.size(0), " tokens for ", own.size(0), " weights");
  return own;
}

void store_log_probabilities(const segment_scope& scope, const at::Tensor& at_target, const at::Tensor& log_sums) {
  const micro_batch& batch = scope.batch();
  TORCH_CHECK(batch.targets.empty(), "logarithms of probabilities are for batches whose targets are the next tokens");
  const auto rows = static_cast<int64_t>(batch.rows);
  *batch.log_probabilities =
      at_target.to(log_sums.scalar_type()).sub(log_sums).reshape({rows, at_target.numel() / rows});
}

at::Tensor cross_entropy(const segment_scope& scope, const at::Tensor& logits, const kernels::loss_form& form) {
  const int64_t width = logits.size(1);
  const auto made = [&] {
    const below_autograd plain;
    loss_parts parts(scope, logits, {0, width, width});
    kernels_for(parts.rows)
        .cross_entropy(form, numbers_of(parts.weights), bytes_of(parts.rows), core_dtype(parts.rows.scalar_type()),
                       static_cast<uint64_t>(parts.rows.size(0)), static_cast<uint64_t>(width),
                       parts.targets.const_data_ptr<int64_t>(), bytes_in(parts.log_sums), bytes_in(parts.loss));
    if (scope.batch().log_probabilities != nullptr)
      store_log_probabilities(scope, parts.rows.gather(1, parts.targets.unsqueeze(1)).squeeze(1), parts.log_sums);
    return parts;
  };
  return with_history(scope, logits, made(), width, form);
}

at::Tensor row_statistics(const segment_scope& scope, const at::Tensor& logits, const vocabulary_rows& own,
                          const kernels::loss_form& form) {
  const below_autograd plain;
  const loss_parts parts(scope, logits, own);
  at::Tensor out = at::empty({parts.rows.size(0), static_cast<int64_t>(kernels::row_statistics)}, parts.loss.options());
  kernels_for(parts.rows)
      .cross_entropy_part(form, bytes_of(parts.rows), core_dtype(parts.rows.scalar_type()),
                          static_cast<uint64_t>(parts.rows.size(0)), static_cast<uint64_t>(own.count),
                          static_cast<uint64_t>(logits.size(1)), parts.targets.const_data_ptr<int64_t>(),
                          bytes_in(out));
  return out;
}

at::Tensor joined_cross_entropy(const segment_scope& scope, const at::Tensor& logits, const at::Tensor& statistics,
                                const vocabulary_rows& own, const kernels::loss_form& form) {
  const auto made = [&] {
    const below_autograd plain;
    loss_parts parts(scope, logits, own);
    const at::Tensor all = statistics.contiguous();
    TORCH_CHECK(all.dim() == 3 && all.size(1) == parts.rows.size(0) &&
                    all.size(2) == static_cast<int64_t>(kernels::row_statistics),
                "statistics of ", all.sizes(), " for ", parts.rows.size(0), " rows of logits");
    kernels_for(parts.rows)
        .joined_cross_entropy(form, numbers_of(parts.weights), bytes_of(all), core_dtype(parts.rows.scalar_type()),
                              static_cast<uint64_t>(all.size(0)), static_cast<uint64_t>(all.size(1) * all.size(2)),
                              static_cast<uint64_t>(all.size(1)), bytes_in(parts.log_sums), bytes_in(parts.loss));
    // Only one rank has the target's column, so that its logit is a sum with zeros.
    if (scope.batch().log_probabilities != nullptr)
      store_log_probabilities(scope, all.select(2, 2).sum(0), parts.log_sums);
    return parts;
  };
  return with_history(scope, logits, made(), own.count, form);
}

}  // namespace troupe::models
