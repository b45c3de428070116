// Attention maps, which a model may learn from its teacher: the weights of each query's keys, before dropout. Owns
// their arithmetic, head by head in the type that sums are formed in; attention itself has its own arithmetic
// (attention.hpp), which keeps no map.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/layers/functions.hpp"

namespace troupe::models {

/// Returns (B, heads, T, T) in fp32 (fp64 for fp64), from queries, keys and values (B, T, ..) next to each other:
/// softmax over the keys up to each query, 0 for later keys.
at::Tensor attention_map(const at::Tensor& qkv, const attention_shape& shape);

/// Returns `qkv` itself; in backward, the gradient of the loss between the maps is added to its gradient. Adds the loss
/// to `lesson.lost`.
at::Tensor learn_map(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                     const map_lesson& lesson);

}  // namespace troupe::models
