// The functions that segments consist of. Each works under grad mode (and then records one node that writes its
// parameters' gradients through the segment's sink) and without it. Shapes: B rows, T columns, C width, N = B * T.
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

/// Computes the activation of an MLP, element by element, with ATen's operations and autograd history.
at::Tensor activate(const at::Tensor& x, activation act);

/// Returns act(before[0]), times before[1] if there are two, for rows without history; may reuse the memory of
/// before[0].
at::Tensor activated_rows(activation act, const std::vector<at::Tensor>& before);

/// Results of activated_backward, which computes the gradients of `before`, the inputs of activated_rows, from `dy`,
/// that of its output; each may reuse the memory of a tensor that it is computed from.
struct activated_gradients {
  at::Tensor y;  ///< the output of activated_rows, recomputed
  std::vector<at::Tensor> before;
};
activated_gradients activated_backward(activation act, const std::vector<at::Tensor>& before, at::Tensor dy);

/// Computes a linear layer: x (.., in) -> (.., out).
at::Tensor linear(const segment_scope& scope, const at::Tensor& x, const projection& p);

/// Returns linear(act(x)); backward recomputes act(x) if that is cheap (tanh-GELU) instead of keeping it.
at::Tensor activated_linear(const segment_scope& scope, const at::Tensor& x, activation act, const projection& p);

/// Returns linear(act(gate) * up), for equal shapes; backward recomputes act(gate) for SiLU instead of keeping it.
at::Tensor gated_linear(const segment_scope& scope, const at::Tensor& gate, const at::Tensor& up, activation act,
                        const projection& p);

/// The outputs of the layers after a norm, and the norm's input for the residual path around the norm. The norm adds
/// the gradient of that path when it computes the gradient of its input.
struct normed_outputs {
  std::vector<at::Tensor> y;  ///< outputs: one for each layer
  at::Tensor past;
};

/// Returns linear(norm(x)) for each of `layers`, or norm(x) itself if there are none; backward recomputes norm(x)
/// instead of keeping it.
normed_outputs normed_linear(const segment_scope& scope, const at::Tensor& x, row_norm norm,
                             std::vector<projection> layers);

/// The layers of an MLP: output(activated(inputs(norm(x)))), or without the norm. tiled_mlp holds the inputs of the
/// activation for `tile_rows` rows, whole panels, at a time: backward recomputes them, and only x is kept. The bits are
/// those of normed_linear and activated_linear or gated_linear.
struct mlp_layers {
  std::optional<row_norm> norm;
  /// Input layers of the MLP: one, or those of a gate and of the values that it multiplies.
  std::vector<projection> inputs;
  activation act = activation::gelu_tanh;
  projection output;
};
normed_outputs tiled_mlp(const segment_scope& scope, const at::Tensor& x, mlp_layers layers, uint64_t tile_rows);

struct attention_shape {
  int64_t heads = 1, kv_heads = 1, head_width = 1;
  int64_t first_head = 0;  ///< number in the model of the first query head, by which dropout masks are chosen
};

/// Computes causal self-attention inside each document of the batch. `qkv` (B, T, (heads + 2 kv_heads) * head_width):
/// queries, keys, values next to each other. Returns (B, T, heads * head_width).
at::Tensor causal_attention(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                            float dropout);

/// Computes causal self-attention for the scope's columns: `queries` (B, T', heads * head_width) are those of these
/// columns, `keys` (B, T, 2 * kv_heads * head_width) the keys and values of all columns.
at::Tensor causal_attention(const segment_scope& scope, const at::Tensor& queries, const at::Tensor& keys,
                            const attention_shape& shape, float dropout);

/// Returns the mean cross-entropy of logits (N, V) against the batch's targets; a scalar in fp32 (fp64 for fp64). Its
/// backward overwrites the logits with their gradient.
at::Tensor cross_entropy(const segment_scope& scope, const at::Tensor& logits);

/// Returns the target of each row of `of_rows` (N, ..), the scope's columns, after checking that all of the batch's
/// targets are below `vocabulary`.
at::Tensor targets_of(const segment_scope& scope, int64_t vocabulary, const at::Tensor& of_rows);

/// The teacher's head, applied to the teacher's last hidden state, and the terms of the model's loss against it.
struct taught_head {
  at::Tensor hidden;  ///< (.., C') output of the teacher's last unit
  row_norm norm;
  projection layer;
  kernels::distillation_terms terms;
};

/// Returns the mean cross-entropy times `factor`, of logits linear(norm(x)) of x (.., C), with the bits of
/// cross_entropy, while only `tile_rows`, whole panels, of the logits' rows exist at a time. With history nothing is
/// computed until its backward, which computes each tile once, forward and backward: the returned value is NaN until
/// then.
///
/// If there is a teacher, distil() computes the loss of a row from the model's logits and the teacher's. The teacher's
/// logits are computed tile by tile, like the model's, from the teacher's hidden state, which receives no gradient. A
/// teacher requires history.
at::Tensor tiled_cross_entropy(const segment_scope& scope, const at::Tensor& x, row_norm norm, projection layer,
                               uint64_t tile_rows, double factor, std::optional<taught_head> teacher = {});

/// Returns the statistics that `joined_cross_entropy` needs of each rank if ranks have columns of the vocabulary, for
/// logits (N, V') that begin with the columns `own`: (N, kernels::row_statistics) in fp32 (fp64 for fp64), without
/// history.
at::Tensor row_statistics(const segment_scope& scope, const at::Tensor& logits, const vocabulary_rows& own);

/// Returns the mean cross-entropy, the same on every rank, from the `statistics` (ranks, N, ..) of all; its backward
/// overwrites this rank's logits with their gradient, zero after its own columns.
at::Tensor joined_cross_entropy(const segment_scope& scope, const at::Tensor& logits, const at::Tensor& statistics,
                                const vocabulary_rows& own);

}  // namespace troupe::models
