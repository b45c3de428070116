// The loss between a model's hidden state and its teacher's, and its gradient.
#include "models/layers/distillation.hpp"

#include <ATen/core/grad_mode.h>

#include <numeric>
#include <vector>

#include "core/math.hpp"
#include "models/segment/operations.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::models {

hidden_loss learn_hidden(const at::Tensor& model, const at::Tensor& teacher, double weight, double scale) {
  const at::NoGradGuard no_grad;
  TORCH_CHECK(model.sizes() == teacher.sizes(), "hidden states of ", model.sizes(), " and of ", teacher.sizes());
  at::Tensor apart = model.sub(teacher).contiguous();
  const uint64_t count = count_of(apart);
  if (count == 0) return {apart, 0};
  std::vector<double> sums(core::div_up(count, core::partition_grain));
  const kernels::squared_elements all{bytes_of(apart), count, sums};
  kernels_for(apart).block_square_sums({&all, 1}, core_dtype(apart.scalar_type()));
  const double mean = std::accumulate(sums.begin(), sums.end(), 0.0) / static_cast<double>(count);
  return {apart.mul_(2 * weight * scale / static_cast<double>(count)), weight * mean};
}

}  // namespace troupe::models
