// Losses by which a model learns the attention maps and the hidden states of its teacher, and their gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/layers/functions.hpp"

namespace troupe::models {

/// Returns the attention maps (B, heads, T, T) in fp32 (fp64 for fp64) of queries, keys and values (B, T, ..), packed
/// next to each other: for each query the softmax over the keys up to its position, and 0 for later keys.
at::Tensor attention_map(const at::Tensor& qkv, const attention_shape& shape);

/// Adds the loss between the maps of `qkv` and of the teacher to `target.lost`, and returns `qkv`. In backward, the
/// gradient of that loss is added to the gradient of `qkv`.
at::Tensor learn_map(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                     const map_target& target);

struct hidden_loss {
  at::Tensor gradient;  ///< gradient of scale * loss with respect to the model's hidden state, in its type
  double loss = 0;      ///< loss: weight * mean squared difference of the two hidden states
};

/// Returns the loss between a model's and its teacher's hidden states, which must have equal shape and type. `scale`
/// multiplies only the gradient. Differences are rounded to the type; their squares are added in the same order as the
/// squares of a norm (kernels/sums/norm.hpp).
hidden_loss learn_hidden(const at::Tensor& model, const at::Tensor& teacher, double weight, double scale);

}  // namespace troupe::models
