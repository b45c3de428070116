#include "models/inject/cross_entropy.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/functional/loss.h>

namespace troupe::models {
namespace {

at::Tensor rows_of(const at::Tensor& scores) { return scores.reshape({-1, scores.size(-1)}); }

/// The targets of all rows from the view of a rank that has some columns of the vocabulary. `is_own`: true for rows
/// whose target is one of the rank's columns. `column`: index of the target among the rank's columns, 0 if it is not
/// one of them.
struct own_targets {
  at::Tensor is_own, column;
};
own_targets among(const at::Tensor& target, int64_t first, int64_t count) {
  const at::Tensor t = target.reshape({-1}) - first;
  const at::Tensor is_own = t.ge(0).logical_and(t.lt(count));
  return {is_own, t.masked_fill(is_own.logical_not(), 0)};
}

/// Autograd function that returns a number whose gradient was computed together with it and is returned in backward.
struct known_gradient : torch::autograd::Function<known_gradient> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& /*of*/,
                            const at::Tensor& slope, const at::Tensor& value) {
    context->save_for_backward({slope});
    return value.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {context->get_saved_variables().front() * gradients.front(), {}, {}};
  }
};

}  // namespace

at::Tensor vocabulary_cross_entropy::operator()(const at::Tensor& scores, const at::Tensor& target) const {
  return torch::nn::functional::cross_entropy(
      rows_of(scores), target.reshape({-1}),
      torch::nn::functional::CrossEntropyFuncOptions().ignore_index(ignore_index));
}

at::Tensor vocabulary_cross_entropy::statistics(const at::Tensor& own, const at::Tensor& target, int64_t first,
                                                int64_t vocabulary) const {
  const at::NoGradGuard no_grad;
  const at::Tensor rows = rows_of(own), t = target.reshape({-1});
  TORCH_CHECK(t.size(0) == rows.size(0), "wanted a target for each of ", rows.size(0), " rows of scores, got ",
              t.size(0));
  TORCH_CHECK(t.ge(0).logical_and(t.lt(vocabulary)).logical_or(t.eq(ignore_index)).all().is_nonzero(),
              "wanted targets from 0 to ", vocabulary - 1, " or ", ignore_index, ", got others");
  const own_targets mine = among(t, first, rows.size(1));
  const at::Tensor most = rows.amax(1);
  const at::Tensor powers = (rows - most.unsqueeze(1)).exp().sum(1);
  const at::Tensor score = rows.gather(1, mine.column.unsqueeze(1)).squeeze(1);
  return at::stack({most, powers, score.masked_fill(mine.is_own.logical_not(), 0)}, 1);
}

at::Tensor vocabulary_cross_entropy::joined(const at::Tensor& own, const at::Tensor& gathered, const at::Tensor& target,
                                            int64_t first) const {
  at::Tensor slope, value;
  {
    const at::NoGradGuard no_grad;
    const at::Tensor rows = rows_of(own), t = target.reshape({-1});
    const at::Tensor most = gathered.select(2, 0).amax(0);
    at::Tensor powers = at::zeros_like(most), score = at::zeros_like(most);
    // Adds the statistics of the ranks in rank order, so that all ranks get the same bits.
    for (int64_t r = 0; r < gathered.size(0); ++r) {
      const at::Tensor of = gathered.select(0, r);
      powers = powers + of.select(1, 1) * (of.select(1, 0) - most).exp();
      score = score + of.select(1, 2);
    }
    const at::Tensor counts = t.ne(ignore_index), count = counts.sum().to(rows.scalar_type());
    value = (powers.log() + most - score).masked_fill(counts.logical_not(), 0).sum() / count;
    const own_targets mine = among(t, first, rows.size(1));
    slope = (rows - most.unsqueeze(1)).exp() / powers.unsqueeze(1);
    const at::Tensor hit = mine.is_own.to(rows.scalar_type()).unsqueeze(1);
    slope.scatter_add_(1, mine.column.unsqueeze(1), -hit);
    slope.mul_(counts.to(rows.scalar_type()).unsqueeze(1) / count);
    slope = slope.view(own.sizes());
  }
  return known_gradient::apply(own, slope, value);
}

}  // namespace troupe::models
