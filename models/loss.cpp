// Cross-entropy over a vocabulary, in fp32, lean on memory: beside the logits only one number a row is kept,
// and the gradient takes the logits' place.
#include <ATen/ops/empty.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/logsumexp.h>

#include <algorithm>

#include "models/function_node.hpp"
#include "models/functions.hpp"
#include "models/torch_dtype.hpp"

namespace troupe::models {
namespace {

/// Elements of the wide scratch copy of some rows of logits: small enough for the cache.
constexpr int64_t scratch_numel_max = int64_t{1} << 18;

int64_t rows_at_once(const at::Tensor& logits) { return std::max<int64_t>(1, scratch_numel_max / logits.size(1)); }

at::Tensor targets_of(const micro_batch& batch) {
  const auto rows = static_cast<int64_t>(batch.rows), columns = static_cast<int64_t>(batch.columns);
  at::Tensor targets = at::empty({rows * columns, 1}, at::kLong);
  auto* out = targets.mutable_data_ptr<int64_t>();
  for (int64_t r = 0; r < rows; ++r)
    std::copy_n(batch.tokens.data() + r * (columns + 1) + 1, columns, out + r * columns);
  return targets;
}

struct cross_entropy_node final : function_node {
  at::Tensor logits, log_sums, targets;  // (N, V), (N, 1), (N, 1)

  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    const at::Tensor logits_gradient = std::exchange(logits, {});
    const int64_t count = logits_gradient.size(0), step = rows_at_once(logits_gradient);
    const double factor = gradients[0].item<double>() / static_cast<double>(count);
    const at::Tensor minus_one = at::empty({1, 1}, log_sums.options()).fill_(-1).expand({step, 1});
    for (int64_t first = 0; first < count; first += step) {
      const int64_t n = std::min(step, count - first);
      const at::Tensor rows = logits_gradient.narrow(0, first, n);
      // (softmax - onehot) * factor
      at::Tensor wide = rows.to(log_sums.scalar_type());
      wide.sub_(log_sums.narrow(0, first, n)).exp_();
      wide.scatter_add_(1, targets.narrow(0, first, n), minus_one.narrow(0, 0, n)).mul_(factor);
      if (!wide.is_same(rows)) rows.copy_(wide);
    }
    return {logits_gradient};
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
  at::Tensor loss, log_sums, targets;
  const int64_t count = logits.size(0), step = rows_at_once(logits);
  {
    const below_autograd plain;
    targets = targets_of(scope.batch());
    const at::ScalarType wide_type = sum_dtype(logits.scalar_type());
    log_sums = at::empty({count, 1}, logits.options().dtype(wide_type).requires_grad(false));
    double sum = 0;
    for (int64_t first = 0; first < count; first += step) {
      const int64_t n = std::min(step, count - first);
      const at::Tensor wide = logits.detach().narrow(0, first, n).to(wide_type);
      at::Tensor sums = log_sums.narrow(0, first, n);
      at::logsumexp_out(sums, wide, {1}, /*keepdim=*/true);
      sum += sums.sub(wide.gather(1, targets.narrow(0, first, n))).sum(at::kDouble).item<double>();
    }
    loss = at::empty({}, log_sums.options()).fill_(sum / static_cast<double>(count));
  }
  if (!wants_node(logits)) return loss;
  auto node = std::make_shared<cross_entropy_node>();
  node->logits = logits.detach();
  node->log_sums = std::move(log_sums);
  node->targets = std::move(targets);
  attach(loss, std::move(node), scope, logits);
  return loss;
}

}  // namespace troupe::models
