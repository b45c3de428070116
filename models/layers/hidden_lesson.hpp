// The loss between a model's hidden state and its teacher's, and its gradient.
#pragma once

#include <ATen/core/Tensor.h>

namespace troupe::models {

struct hidden_lesson {
  at::Tensor gradient;  ///< gradient of scale * loss with respect to the model's hidden state, in its type
  double loss = 0;      ///< loss: weight * mean squared difference of the two hidden states
};

/// Returns the loss between a model's and its teacher's hidden states, which must have equal shape and type. `scale`
/// multiplies only the gradient. Differences are rounded to the type; their squares are added in the same order as the
/// squares of a norm (kernels/sums/norm.hpp).
hidden_lesson learn_hidden(const at::Tensor& model, const at::Tensor& teacher, double weight, double scale);

}  // namespace troupe::models
