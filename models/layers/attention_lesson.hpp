// Attention maps, which a model may learn from its teacher: who attends to whom, before dropout. Owns their arithmetic,
// head by head in the type that sums are formed in; attention itself has its own (attention.hpp), which keeps no map.
#pragma once

#include <ATen/core/Tensor.h>

#include "models/layers/functions.hpp"

namespace troupe::models {

/// (B, heads, T, T) in fp32 (fp64 for fp64), of queries, keys and values (B, T, ..) side by side: softmax over the keys
/// up to each query, 0 behind it.
at::Tensor attention_map(const at::Tensor& qkv, const attention_shape& shape);

/// `qkv` itself, with the gradient of the lesson's loss added to its own in backward. Adds the loss to `lesson.lost`.
at::Tensor learn_map(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                     const map_lesson& lesson);

}  // namespace troupe::models
