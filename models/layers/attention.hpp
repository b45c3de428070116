// Causal attention on one micro-batch: its arguments, and its two implementations on the CPU, which are chosen by type;
// attention.cpp adds autograd history to the device's implementation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/device_id.hpp"
#include "models/layers/dropout.hpp"
#include "models/layers/functions.hpp"
#include "models/segment/documents.hpp"

namespace troupe::models {

/// Arguments that forward and backward of attention share for one micro-batch.
struct attention_work {
  attention_shape shape;
  dropout_masks masks;
  std::span<const uint32_t> starts;  ///< starts of documents, for all rows and columns; empty: each row is one document
  core::column_set queries;          ///< columns that attend
  int64_t columns = 0;               ///< number of columns of keys and values: all columns
  at::Tensor boundaries{};           ///< batch_numbers::boundaries, if the device cannot read the host's memory
  int64_t longest_document = 0;      ///< number of tokens of the longest document, for a device that reads `boundaries`

  /// Returns the blocks of queries into which row `row` of the micro-batch is divided, in order.
  [[nodiscard]] std::vector<query_block> blocks(int64_t row, int64_t most_queries) const {
    const auto n = static_cast<size_t>(columns);
    return query_blocks(queries, most_queries,
                        starts.empty() ? starts : starts.subspan(static_cast<size_t>(row) * n, n));
  }
};

/// Inputs of attention: queries (B, T', heads * head_width) of the T' columns that attend (attention_work::queries),
/// and keys with values (B, T, 2 * kv_heads * head_width) of all T columns. Tokens may have gaps between them; the
/// elements of a token are contiguous.
struct attention_tensors {
  at::Tensor queries, keys;
};

/// Computes attention with LibTorch's own operations, each rounded to the type of the tensors: for any floating type,
/// and simple to read.
at::Tensor composed_forward(const attention_work& work, const attention_tensors& in);
/// Computes the gradients of `in` into `out`, whose tensors have the same shapes, from the gradient `dy` of the output,
/// which is contiguous. The gradient of keys that no query sees is zero.
void composed_backward(const attention_work& work, const attention_tensors& in, const at::Tensor& dy,
                       const attention_tensors& out);

/// Compute attention with the CPU kernel, in fp32 between the tensors and the result: fp32, bf16 and f16.
at::Tensor fused_forward(const attention_work& work, const attention_tensors& in);
void fused_backward(const attention_work& work, const attention_tensors& in, const at::Tensor& dy,
                    const attention_tensors& out);

/// Results that backward of an attention needs besides its inputs. Undefined on a device that recomputes both, as the
/// CPU does.
struct attention_results {
  at::Tensor y;         ///< output of attention, (B, number of query columns, heads * head_width)
  at::Tensor log_sums;  ///< logarithms of the softmax's sums, in the device's own shape
};

struct attention_operations {  ///< attention on one device
  /// Returns the output, a new tensor, and sets `kept` to the results that backward needs.
  at::Tensor (*forward)(const attention_work& work, const attention_tensors& in, attention_results& kept);
  /// Fills `out`, which is like `in`, from dy, which is like the output and contiguous. Keys that no query sees get
  /// zero.
  void (*backward)(const attention_work& work, const attention_tensors& in, const attention_results& kept,
                   const at::Tensor& dy, const attention_tensors& out);
};

/// Returns the functions of the device of `t`; throws c10::Error if no library has registered any. The CPU's functions
/// choose one of its two implementations by type: the kernel does not support fp64.
const attention_operations& attention_for(const at::Tensor& t);

/// Makes `table`, which must live as long as the process, the table of every device of `kind`; see device::provide.
void provide(device::device_kind kind, const attention_operations& table);

/// Compute causal_attention by one implementation, whatever the type.
at::Tensor composed_attention(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                              float dropout);
at::Tensor fused_attention(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                           float dropout);

}  // namespace troupe::models
