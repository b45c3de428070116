// The loss between a model's hidden state and its teacher's, and its gradient.
#pragma once

#include <ATen/core/Tensor.h>

namespace troupe::models {

struct hidden_lesson {
  at::Tensor gradient;  ///< gradient of the loss times its factor, by the model's hidden state; in its type
  double loss = 0;      ///< loss of the lesson: weight times the mean squared difference
};

/// Compares two hidden states of equal shape and type. `scale` multiplies the loss in the gradient. Differences are
/// rounded to the type; their squares are added in the same order as the squares of a norm (kernels/sums/norm.hpp).
hidden_lesson learn_hidden(const at::Tensor& model, const at::Tensor& teacher, double weight, double scale);

}  // namespace troupe::models
