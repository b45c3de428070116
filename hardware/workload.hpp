// Declares the plain data that a price is asked for: a training step, a matrix product, an attention kernel or an
// all-reduce. Counts are doubles, because every price is a formula of real numbers; no field names a model or a card.
#pragma once

#include <variant>

namespace troupe::hardware {

/// One training step: the model's sizes, the degrees, and how the step is computed.
struct workload {
  double hidden = 0, ffn = 0;      ///< widths; `ffn` is the width of one of the gate and up projections
  double heads = 0, kv_heads = 0;  ///< heads of queries, and of keys and values
  double layers = 0, sequence = 0, vocabulary = 0;
  double tensor = 1, data = 1, pipeline = 1, context = 1;  ///< degrees
  double chunks = 1;               ///< model chunks of one stage (interleaved 1F1B); 1: plain 1F1B
  double micro_batch = 1;          ///< sequences of one micro-batch
  double micro_batches = 1;        ///< micro-batches of one step and pipeline
  int zero = 0;                    ///< stage of ZeRO, 0 to 3
  bool gated = false;              ///< the MLP has three products
  bool recompute = false;          ///< every block's forward is repeated before its backward
  bool selective = false;          ///< only the core of attention is repeated
  bool early_stop = false;         ///< the repetition stops before the block's last product
  bool fused_attention = false;    ///< scores are never written to memory
  bool causal_skip = false;        ///< the kernel computes the causal half only
  bool sequence_parallel = false;  ///< norms, dropouts and residuals are divided over tensor ranks
  bool bias = false, learned_positions = false;
  bool untied = false;                        ///< embedding and head have matrices of their own
  bool embedding_is_layer = false;            ///< embedding and head count as layers when stages are cut
  bool slow_pcie = false;                     ///< the nodes' PCIe settings were the slow ones
  double product_rate_factor = 1;             ///< peak of products / peak of 16-bit products
  double grad_bytes = 2;                      ///< bytes of an element in the all-reduce of gradients
  double gather_bytes = 2, reduce_bytes = 2;  ///< bytes of an element in gathers and reduce-scatters of ZeRO 2 and 3
  double main_grad_bytes = 2;                 ///< bytes of a parameter's gradients in memory
};

/// Layout of a product's operands, as BLAS names it: TN in forward, NN for gradients of inputs, NT for gradients of
/// weights.
enum class product_layout : unsigned char { tn, nn, nt };

/// One matrix product, m x k by k x n, with 16-bit operands.
struct product_shape {
  double m = 0, n = 0, k = 0;
  product_layout layout = product_layout::tn;
  double out_bytes = 2;     ///< bytes of an element of the result
  bool accumulate = false;  ///< the result is added to what is in memory
};

/// One fused causal attention kernel.
struct attention_shape {
  double batch = 1, heads = 1, sequence = 0;
  double qk_width = 0, v_width = 0;  ///< widths of one head
  bool backward = false;
};

/// One all-reduce among the ranks of a node.
struct all_reduce_shape {
  double ranks = 0, bytes = 0;
};

using shape = std::variant<workload, product_shape, attention_shape, all_reduce_shape>;

}  // namespace troupe::hardware
