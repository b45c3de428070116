// The functions a segment is made of. Each works under grad mode (it then leaves one node that writes its parameters'
// gradients through the segment's sink) and without it. Shapes: B rows, T columns, C width, N = B * T.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/layers/distillation.hpp"
#include "models/layers/norm.hpp"
#include "models/segment/projection.hpp"
#include "models/segment/segment_scope.hpp"
#include "models/table/model_spec.hpp"
#include "models/table/tp_split.hpp"

namespace troupe::models {

/// The activation of an MLP, element by element, with ATen's history.
at::Tensor activate(const at::Tensor& x, activation act);

/// act(before[0]), times before[1] where there are two, of rows without history; may take the memory of before[0].
at::Tensor activated_rows(activation act, const std::vector<at::Tensor>& before);

/// The gradients of these from `dy`, that of the result; each may take memory of what it is made of. `before` has what
/// activated_rows was given.
struct activated_gradients {
  at::Tensor y;  ///< the result once more
  std::vector<at::Tensor> before;
};
activated_gradients activated_backward(activation act, const std::vector<at::Tensor>& before, at::Tensor dy);

/// x (.., in) -> (.., out).
at::Tensor linear(const segment_scope& scope, const at::Tensor& x, const projection& p);

/// linear(act(x)); backward recomputes act(x) where that is cheap (tanh-GELU) instead of keeping it.
at::Tensor activated_linear(const segment_scope& scope, const at::Tensor& x, activation act, const projection& p);

/// linear(act(gate) * up), of equal shapes; backward recomputes act(gate) for SiLU in the same way.
at::Tensor gated_linear(const segment_scope& scope, const at::Tensor& gate, const at::Tensor& up, activation act,
                        const projection& p);

/// The outputs of the layers behind a norm, and the norm's input for the residual path past the norm. The gradient of
/// that path is added to the input's gradient where the norm forms it.
struct normed_outputs {
  std::vector<at::Tensor> y;  ///< one for each layer
  at::Tensor past;
};

/// linear(norm(x)) for each of `layers`, or norm(x) itself where there are none; backward recomputes norm(x) instead of
/// keeping it.
normed_outputs normed_linear(const segment_scope& scope, const at::Tensor& x, row_norm norm,
                             std::vector<projection> layers);

/// An MLP: output(activated(inputs(norm(x)))), without a norm where there is none. Only what is in front of the
/// activation of `tile_rows`, whole panels, of the rows is there at a time: backward multiplies it again, and keeps x
/// alone. With the bits of normed_linear and activated_linear or gated_linear.
struct mlp_layers {
  std::optional<row_norm> norm;
  std::vector<projection> inputs;  ///< one, or a gate and what it is for
  activation act = activation::gelu_tanh;
  projection output;
};
normed_outputs tiled_mlp(const segment_scope& scope, const at::Tensor& x, mlp_layers layers, uint64_t tile_rows);

struct attention_shape {
  int64_t heads = 1, kv_heads = 1, head_width = 1;
  int64_t first_head = 0;  ///< number in the model of the first query head: the masks are named by it
};

/// Causal self-attention inside each document of the batch. `qkv` (B, T, (heads + 2 kv_heads) * head_width): queries,
/// keys, values side by side. Returns (B, T, heads * head_width).
at::Tensor causal_attention(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                            float dropout);

/// The same of the scope's columns: `queries` (B, T', heads * head_width) are theirs, `keys` (B, T, 2 * kv_heads *
/// head_width) keys and values of all.
at::Tensor causal_attention(const segment_scope& scope, const at::Tensor& queries, const at::Tensor& keys,
                            const attention_shape& shape, float dropout);

/// Mean cross-entropy of logits (N, V) against the batch's targets; a scalar in fp32 (fp64 for fp64).
/// Its backward overwrites the logits with their gradient.
at::Tensor cross_entropy(const segment_scope& scope, const at::Tensor& logits);

/// The token behind each row of `of_rows` (N, ..), the scope's columns, after checking that all of the batch's are
/// below `vocabulary`.
at::Tensor targets_of(const segment_scope& scope, int64_t vocabulary, const at::Tensor& of_rows);

/// What a teacher's logits are of, and what a model loses to them.
struct taught_head {
  at::Tensor hidden;  ///< (.., C') of the teacher's last unit
  row_norm norm;
  projection layer;
  kernels::distillation_terms terms;
};

/// The same loss times `factor`, of logits linear(norm(x)) of x (.., C), with the same bits, where only
/// `tile_rows`, whole panels, of their rows are there at a time. With history nothing is computed until its backward,
/// which takes each tile once, forward and back: what is returned is NaN until then.
///
/// With a teacher the loss of a row is `distil`'s, of logits and of the teacher's, which are made of its hidden state
/// in the same tiles; nothing in it learns. Only with history.
at::Tensor tiled_cross_entropy(const segment_scope& scope, const at::Tensor& x, row_norm norm, projection layer,
                               uint64_t tile_rows, double factor, std::optional<taught_head> teacher = {});

/// Where ranks have columns of the vocabulary: what `joined_cross_entropy` wants of each for logits (N, V') that begin
/// with the columns `own`. (N, kernels::row_statistics) in fp32 (fp64 for fp64), without history.
at::Tensor row_statistics(const segment_scope& scope, const at::Tensor& logits, const vocabulary_rows& own);

/// The same loss on every rank, from the `statistics` (ranks, N, ..) of all; its backward overwrites this rank's
/// logits with their gradient, zero behind its own columns.
at::Tensor joined_cross_entropy(const segment_scope& scope, const at::Tensor& logits, const at::Tensor& statistics,
                                const vocabulary_rows& own);

}  // namespace troupe::models
