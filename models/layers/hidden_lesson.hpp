// How far a model's hidden state is from its teacher's, and which way back.
#pragma once

#include <ATen/core/Tensor.h>

namespace troupe::models {

struct hidden_lesson {
  at::Tensor gradient;  ///< of the loss times its factor, by the model's hidden state; in its type
  double loss = 0;      ///< weight times the mean squared difference
};

/// Of two hidden states of equal shape and type. `scale` is what the loss is multiplied with before it goes back.
/// Differences are rounded to the type, their squares are added as a norm's (kernels/sums/norm.hpp).
hidden_lesson learn_hidden(const at::Tensor& model, const at::Tensor& teacher, double weight, double scale);

}  // namespace troupe::models
