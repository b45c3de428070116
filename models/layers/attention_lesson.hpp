// Attention maps (the attention weights of each query, before dropout), which a model may learn from its teacher. Owns
// their arithmetic, head by head, in the type that sums are formed in; attention itself (attention.hpp) computes with
// other code, which keeps no map.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/layers/functions.hpp"

namespace troupe::models {

/// Returns the attention maps (B, heads, T, T) in fp32 (fp64 for fp64) of queries, keys and values (B, T, ..), packed
/// next to each other: for each query the softmax over the keys up to its position, and 0 for later keys.
at::Tensor attention_map(const at::Tensor& qkv, const attention_shape& shape);

/// Adds the loss between the maps of `qkv` and of the teacher to `lesson.lost`, and returns `qkv`. In backward, the
/// gradient of that loss is added to the gradient of `qkv`.
at::Tensor learn_map(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                     const map_lesson& lesson);

}  // namespace troupe::models
