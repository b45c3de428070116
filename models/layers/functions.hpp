// The functions of which segments consist. With grad mode on, each records one autograd node, which writes its
// parameters' gradients through the segment's sink; with grad mode off, none. Letters in shapes: B rows (samples), T
// columns (token positions), C width, N = B * T.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/layers/cross_entropy.hpp"
#include "kernels/layers/distillation.hpp"
#include "models/layers/norm.hpp"
#include "models/segment/projection.hpp"
#include "models/segment/segment_scope.hpp"
#include "models/table/attention_options.hpp"
#include "models/table/model_spec.hpp"
#include "models/table/tp_split.hpp"

namespace troupe::models {

/// Computes the activation of an MLP, element by element, with ATen's operations and autograd history.
at::Tensor activate(const at::Tensor& x, activation act);

/// Returns act(before[0]), multiplied by before[1] if there are two tensors (a gate and values). Records no history;
/// may overwrite before[0].
at::Tensor activated_rows(activation act, const std::vector<at::Tensor>& before);

/// Results of activated_backward, which computes the gradients of `before`, the inputs of activated_rows, from `dy`,
/// the gradient of its output. Each result may reuse the memory of a tensor from which it is computed.
struct activated_gradients {
  at::Tensor y;  ///< output of activated_rows, recomputed
  std::vector<at::Tensor> before;
};
activated_gradients activated_backward(activation act, const std::vector<at::Tensor>& before, at::Tensor dy);

/// Computes a linear layer: x (.., in) to (.., out).
at::Tensor linear(const segment_scope& scope, const at::Tensor& x, const projection& p);

/// Returns linear(act(x)); backward recomputes act(x) if that is cheap (tanh-GELU) instead of keeping it.
at::Tensor activated_linear(const segment_scope& scope, const at::Tensor& x, activation act, const projection& p);

/// Returns linear(act(gate) * up), for equal shapes; backward recomputes act(gate) for SiLU instead of keeping it.
at::Tensor gated_linear(const segment_scope& scope, const at::Tensor& gate, const at::Tensor& up, activation act,
                        const projection& p);

/// The outputs of the layers that read a norm's output, and `past`, the norm's input, which continues as the residual
/// path. Its gradient is added by the norm's backward.
struct normed_outputs {
  std::vector<at::Tensor> y;  ///< outputs of the layers, or the norm's own output if there are no layers
  at::Tensor past;
};

/// Returns linear(norm(x)) for each of `layers`, or norm(x) if there are none; backward recomputes norm(x) instead of
/// keeping it.
normed_outputs normed_linear(const segment_scope& scope, const at::Tensor& x, row_norm norm,
                             std::vector<projection> layers);

/// The layers of an MLP, output(activation(inputs(norm(x)))), or without the norm. tiled_mlp computes `tile_rows` rows
/// at a time (a number of whole panels, see row_tiles.hpp), so that the activation's inputs exist for these rows only:
/// backward recomputes them, and only x is kept. Its bits are those of normed_linear followed by activated_linear or
/// gated_linear.
struct mlp_layers {
  std::optional<row_norm> norm;
  /// First layers of the MLP: one, or two, a gate and the values that it multiplies.
  std::vector<projection> inputs;
  activation act = activation::gelu_tanh;
  projection output;
  bool is_packed = false;  ///< true: the outputs of the one first layer are the gate and then the values
};
normed_outputs tiled_mlp(const segment_scope& scope, const at::Tensor& x, mlp_layers layers, uint64_t tile_rows);

struct attention_shape {
  int64_t heads = 1, kv_heads = 1, head_width = 1;
  /// Index, among all query heads of the model's layer, of the first one here; dropout masks depend on it.
  int64_t first_head = 0;
  attention_options options = {};
};

/// Computes self-attention inside each document of the batch: a query attends to the tokens up to its own, or, if the
/// shape's options are not causal, to all tokens. `qkv` (B, T, (heads + 2 kv_heads) * head_width) has queries, keys and
/// values of each token next to each other. Returns (B, T, heads * head_width).
at::Tensor self_attention(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                          float dropout);

/// Computes self-attention for the queries of only the T' columns that this rank of a sequence group has:
/// `queries` is (B, T', heads * head_width), `keys` (B, T, 2 * kv_heads * head_width) has the keys and values of all
/// columns.
at::Tensor self_attention(const segment_scope& scope, const at::Tensor& queries, const at::Tensor& keys,
                          const attention_shape& shape, float dropout);

/// Replaces `products`, outputs of a head's linear layer, by the logits that `form` makes of them; records no history.
/// Returns the numbers that form_logits_backward needs if there is a soft cap and they are wanted (`keeps`), else an
/// undefined tensor.
at::Tensor form_logits(const logit_form& form, const at::Tensor& products, bool keeps);
/// Replaces `gradient`, the gradient of logits, by the gradient of the products that form_logits replaced.
void form_logits_backward(const logit_form& form, const at::Tensor& gradient, const at::Tensor& kept);
/// Returns the logits that `form` makes of `products`, in the memory of `products`; the caller must not use `products`
/// afterwards.
at::Tensor formed_logits(const segment_scope& scope, const at::Tensor& products, const logit_form& form);

/// Returns the mean cross-entropy of logits (N, V) against the batch's targets, or the mean of the losses that `form`
/// describes, each times its weight if the batch has weights; a scalar in fp32 (fp64 for fp64). Its backward overwrites
/// the logits with their gradient. If the batch asks for logarithms of probabilities, stores them.
at::Tensor cross_entropy(const segment_scope& scope, const at::Tensor& logits, const kernels::loss_form& form = {});

/// Returns the target token of each row of `of_rows` (N, ..), which are the tokens in the scope's columns;
/// core::no_target for rows without one. Throws if a target of the batch is not below `vocabulary`.
at::Tensor targets_of(const segment_scope& scope, int64_t vocabulary, const at::Tensor& of_rows);

/// Returns the weight of each row of `of_rows` (N, ..), which are the tokens in the scope's columns; undefined if the
/// batch has no weights.
at::Tensor weights_of(const segment_scope& scope, const at::Tensor& of_rows);

/// Stores at micro_batch::log_probabilities, for each row (token) of the scope's columns, the logit `at_target` (N) of
/// its target less `log_sums` (N), the logarithm of the softmax's sum.
void store_log_probabilities(const segment_scope& scope, const at::Tensor& at_target, const at::Tensor& log_sums);

/// The data that a student's head needs of its teacher: the teacher's last hidden state, the norm and linear layer of
/// the teacher's head, how they make logits, and the weights of the losses.
struct taught_head {
  at::Tensor hidden;  ///< (.., C') output of the teacher's last unit
  row_norm norm;
  projection layer;
  logit_form form;
  kernels::distillation_terms terms;
};

/// Returns the mean loss (`of_loss`) times `factor` of the logits that `form` makes of linear(norm(x)), x (.., C), with
/// the bits of cross_entropy, while only `tile_rows` rows of the logits (a number of whole panels) exist at a time. In
/// training nothing is computed until the backward, which computes each tile once, forward and backward: the returned
/// value is NaN until then.
///
/// If there is a teacher, distil() computes the loss of a row from the model's logits and the teacher's. The teacher's
/// logits are computed tile by tile, like the model's, from the teacher's hidden state, which receives no gradient. A
/// teacher may be given in training only.
at::Tensor tiled_cross_entropy(const segment_scope& scope, const at::Tensor& x, row_norm norm, projection layer,
                               const logit_form& form, const kernels::loss_form& of_loss, uint64_t tile_rows,
                               double factor, std::optional<taught_head> teacher = {});

/// Returns this rank's statistics of each row of logits, which all ranks exchange for joined_cross_entropy() if each
/// has some columns of the vocabulary. `logits` (N, V') begins with the columns `own`. Shape (N,
/// kernels::row_statistics), fp32 (fp64 for fp64), without history. joined_cross_entropy() needs the same `form`.
at::Tensor row_statistics(const segment_scope& scope, const at::Tensor& logits, const vocabulary_rows& own,
                          const kernels::loss_form& form = {});

/// Returns the mean cross-entropy, with the same bits on every rank, from `statistics` (ranks, N, ..), the
/// row_statistics() of all ranks. Its backward overwrites this rank's logits with their gradient, and sets the padding
/// after its own columns to zero.
at::Tensor joined_cross_entropy(const segment_scope& scope, const at::Tensor& logits, const at::Tensor& statistics,
                                const vocabulary_rows& own, const kernels::loss_form& form = {});

}  // namespace troupe::models
