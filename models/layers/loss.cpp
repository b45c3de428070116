// Cross-entropy over a vocabulary, in fp32, with little memory: beside the logits only one number a row is kept,
// and the gradient overwrites the logits.
#include <ATen/ops/empty.h>

#include "models/layers/bytes.hpp"
#include "models/layers/function_node.hpp"
#include "models/layers/functions.hpp"
#include "models/layers/host_numbers.hpp"
#include "models/layers/operations.hpp"
#include "models/layers/torch_dtype.hpp"

namespace troupe::models {
namespace {

/// Every token but each row's first on `where`, after checking that all are columns of the logits.
at::Tensor targets_of(const micro_batch& batch, int64_t vocabulary, at::Device where) {
  const uint64_t width = batch.columns + 1;
  for (uint64_t i = 0; i < batch.tokens.size(); ++i)
    TORCH_CHECK(i % width == 0 || (batch.tokens[i] >= 0 && batch.tokens[i] < vocabulary), "a target from 0 to ",
                vocabulary - 1, " was wanted, got ", batch.tokens[i], " at row ", i / width, ", position ",
                i % width - 1);
  const auto rows = static_cast<int64_t>(batch.rows), columns = static_cast<int64_t>(batch.columns);
  return on_device(batch.tokens, where).view({rows, columns + 1}).narrow(1, 1, columns).reshape({-1});
}

struct cross_entropy_node final : function_node {
  at::Tensor logits, log_sums, targets;  // (N, V), (N), (N)

  gradient_list apply(gradient_list&& gradients) override {
    const at::Tensor gradient = std::exchange(logits, {});
    const at::Tensor wide = gradients[0].to(log_sums.scalar_type()).contiguous();
    kernels_for(gradient).cross_entropy_backward(
        bytes_in(gradient), core_dtype(gradient.scalar_type()), static_cast<uint64_t>(gradient.size(0)),
        static_cast<uint64_t>(gradient.size(1)), targets.const_data_ptr<int64_t>(), bytes_of(log_sums), bytes_of(wide));
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
    targets = targets_of(scope.batch(), rows.size(1), rows.device());
    TORCH_CHECK(targets.size(0) == rows.size(0), "logits of ", rows.size(0), " tokens for ", targets.size(0),
                " targets");
    log_sums = at::empty({rows.size(0)}, rows.options().dtype(sum_dtype(rows.scalar_type())).requires_grad(false));
    loss = at::empty({}, log_sums.options());
    kernels_for(rows).cross_entropy(bytes_of(rows), core_dtype(rows.scalar_type()), static_cast<uint64_t>(rows.size(0)),
                                    static_cast<uint64_t>(rows.size(1)), targets.const_data_ptr<int64_t>(),
                                    bytes_in(log_sums), bytes_in(loss));
  }
  if (!wants_node(logits)) return loss;
  auto node = std::make_shared<cross_entropy_node>();
  node->logits = std::move(rows);
  node->log_sums = std::move(log_sums);
  node->targets = std::move(targets);
  attach({&loss}, std::move(node), scope, {logits});
  return loss;
}

}  // namespace troupe::models
