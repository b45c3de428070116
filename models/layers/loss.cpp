// Cross-entropy over a vocabulary, in fp32, lean on memory: beside the logits only one number a row is kept,
// and the gradient takes the logits' place.
#include <ATen/ops/empty.h>

#include <algorithm>

#include "kernels/cross_entropy.hpp"
#include "models/layers/bytes.hpp"
#include "models/layers/function_node.hpp"
#include "models/layers/functions.hpp"
#include "models/layers/torch_dtype.hpp"

namespace troupe::models {
namespace {

/// Every token but each row's first, once it is sure that all are columns of the logits.
at::Tensor targets_of(const micro_batch& batch, int64_t vocabulary) {
  const auto rows = static_cast<int64_t>(batch.rows), columns = static_cast<int64_t>(batch.columns);
  at::Tensor targets = at::empty({rows * columns}, at::kLong);
  auto* out = targets.mutable_data_ptr<int64_t>();
  for (int64_t r = 0; r < rows; ++r)
    std::copy_n(batch.tokens.data() + r * (columns + 1) + 1, columns, out + r * columns);
  for (int64_t i = 0; i < rows * columns; ++i)
    TORCH_CHECK(out[i] >= 0 && out[i] < vocabulary, "a target from 0 to ", vocabulary - 1, " was wanted, got ", out[i],
                " at row ", i / columns, ", position ", i % columns);
  return targets;
}

/// The sum over the rows of logits (N, V), which are contiguous.
double sum_of_losses(const at::Tensor& logits, const at::Tensor& targets, at::Tensor& log_sums) {
  const auto* data = bytes_of(logits);
  const core::dtype type = core_dtype(logits.scalar_type());
  const auto rows = static_cast<uint64_t>(logits.size(0)), width = static_cast<uint64_t>(logits.size(1));
  const auto* wanted = targets.const_data_ptr<int64_t>();
  if (type == core::dtype::f64)
    return kernels::cross_entropy_reference(data, type, rows, width, wanted, log_sums.mutable_data_ptr<double>());
  return kernels::cross_entropy(data, type, rows, width, wanted, log_sums.mutable_data_ptr<float>());
}

struct cross_entropy_node final : function_node {
  at::Tensor logits, log_sums, targets;  // (N, V), (N), (N)

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const at::Tensor gradient = std::exchange(logits, {});
    auto* data = bytes_in(gradient);
    const core::dtype type = core_dtype(gradient.scalar_type());
    const auto rows = static_cast<uint64_t>(gradient.size(0)), width = static_cast<uint64_t>(gradient.size(1));
    const auto* wanted = targets.const_data_ptr<int64_t>();
    const double factor = gradients[0].item<double>() / static_cast<double>(rows);
    if (type == core::dtype::f64) {
      kernels::cross_entropy_backward_reference(data, type, rows, width, wanted, log_sums.const_data_ptr<double>(),
                                                factor);
    } else {
      kernels::cross_entropy_backward(data, type, rows, width, wanted, log_sums.const_data_ptr<float>(), factor);
    }
    return {gradient};
  }
  void release_variables() override {
    logits.reset();
    log_sums.reset();
    targets.reset();
  }
  [[nodiscard]] std::string name() const override { return "cross_entropy"; }
};

}  // namespace

at::Tensor cross_entropy(const segment_scope& scope, const at::Tensor& logits) {
  at::Tensor rows, loss, log_sums, targets;
  {
    const below_autograd plain;
    rows = logits.detach().contiguous();
    targets = targets_of(scope.batch(), rows.size(1));
    TORCH_CHECK(targets.size(0) == rows.size(0), "logits of ", rows.size(0), " tokens for ", targets.size(0),
                " targets");
    log_sums = at::empty({rows.size(0)}, rows.options().dtype(sum_dtype(rows.scalar_type())).requires_grad(false));
    loss = at::empty({}, log_sums.options())
               .fill_(sum_of_losses(rows, targets, log_sums) / static_cast<double>(rows.size(0)));
  }
  if (!wants_node(logits)) return loss;
  auto node = std::make_shared<cross_entropy_node>();
  node->logits = std::move(rows);
  node->log_sums = std::move(log_sums);
  node->targets = std::move(targets);
  attach(loss, std::move(node), scope, logits);
  return loss;
}

}  // namespace troupe::models
