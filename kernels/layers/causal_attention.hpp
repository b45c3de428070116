// Self-attention over the tokens of one document, causal or to all of them, forward and backward on the CPU, in blocks
// of queries whose weights stay in the cache. Owns the arithmetic; leaves the limits of documents, the random numbers
// of dropout and the memory to the caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "core/dtype.hpp"
#include "kernels/layers/dropout.hpp"

namespace troupe::kernels {

/// The dropout of the attention weights of a document that begins at column `first` of a row of `columns` tokens. The
/// weight of (head, query, key), with query and key counted from the document's start, has position ((first_head +
/// head) * columns + first + query) * columns + first + key in the random stream.
struct attention_masks {
  dropout_key key;
  uint64_t columns = 0, first = 0;
  uint64_t first_head = 0;  ///< index, among all query heads of the model's layer, of the first query head of this call
};

/// Sizes of an attention over f32, bf16 or f16 elements; sums and weights are fp32 for all of them. heads / kv_heads
/// query heads share a key head. A query sees the keys up to its own position, or the last `window` of them, or, if
/// attention is not causal, all keys; the score of a key is s = scale * (query . key), or soft_cap * tanh(s /
/// soft_cap).
struct attention_sizes {
  core::dtype type = core::dtype::f32;
  uint64_t tokens = 0, heads = 1, kv_heads = 1, head_width = 1;
  uint64_t window = 0;  ///< number of keys that a query sees: its own key and the keys before it; 0: all
  double scale = 0;     ///< 0: 1 / sqrt(head_width)
  double soft_cap = 0;  ///< 0: scores have no limit
  bool causal = true;   ///< false: a query sees all keys of the document; `window` must then be 0
};

/// Dropout of attention weights: `draw` sets keep[j] to 1 or 0 for the document's keys key + j that `query` sees, and
/// kept weights are multiplied by `factor`. Without `draw` nothing is dropped.
struct attention_dropout {
  std::function<void(std::span<uint8_t> keep, uint64_t head, uint64_t query, uint64_t key)> draw;
  float factor = 1;
};

/// Queries [first, first + count), counted from the start of their document. In the call's arrays of tokens they are
/// the tokens [row, row + count).
struct query_run {
  uint64_t first = 0, count = 0, row = 0;
};

/// Addresses of all keys and values of a document and of some of its queries, which need not be stored together. The
/// strides are the elements between tokens; a token stores its query heads next to each other, and its key heads
/// directly before its value heads.
template <class Byte>
struct attention_operands {
  Byte *queries = nullptr, *keys = nullptr;
  uint64_t query_stride = 0, key_stride = 0;
};
using attention_input = attention_operands<const std::byte>;
using attention_gradient = attention_operands<std::byte>;  ///< gradients, laid out like attention_input

/// Return how many floats of scratch memory the forward and the backward pass require: linear in the number of tokens.
uint64_t causal_attention_scratch(const attention_sizes& sizes);
uint64_t causal_attention_backward_scratch(const attention_sizes& sizes);

/// Computes y (tokens, heads * head_width) = softmax(scores of the keys that the query sees) V, rounded once, for the
/// queries of all `runs`, in their order; y has a row for each token of `in.queries`. `in` has the keys and values of
/// all `sizes.tokens` tokens of the document. A query's bits depend on the tokens that it sees and on nothing else,
/// as long as all values are finite. Keys that no query of a block sees are not computed, so the time falls with
/// the window.
void partial_attention(const attention_sizes& sizes, const attention_dropout& dropout, const attention_input& in,
                       std::span<const query_run> runs, std::byte* y, std::span<float> scratch);

/// Computes the gradients of the queries of all `runs`, and their contributions to the gradients of keys and values,
/// which `out` receives. `in` has the keys and values of the whole document, `dy` a row for each token of `in.queries`.
/// Recomputes the attention weights; each sum is rounded once. Source: Dao 2023, "FlashAttention-2" (arXiv:2307.08691),
/// section 3.1.2; here the row sums are computed from the weights and their gradients, so that only queries, keys and
/// values must be kept for backward.
void partial_attention_backward(const attention_sizes& sizes, const attention_dropout& dropout,
                                const attention_input& in, std::span<const query_run> runs, const std::byte* dy,
                                const attention_gradient& out, std::span<float> scratch);

}  // namespace troupe::kernels
