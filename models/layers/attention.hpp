// Attention on one micro-batch: its arguments, the table of its functions for each device, and the CPU's two
// implementations, which are chosen by type. attention.cpp makes an autograd function of them.
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
  /// [row, column]: first column of the token's document; empty: each row is one document.
  std::span<const uint32_t> starts;
  core::column_set queries;  ///< columns (token positions) of each row whose queries are computed
  int64_t columns = 0;       ///< number T of columns of keys and values: all columns of a row
  at::Tensor boundaries{};   ///< batch_numbers::boundaries in device memory; undefined on the CPU, which reads `starts`
  int64_t longest_document = 0;  ///< number of tokens of the longest document, for devices that read `boundaries`

  /// Returns the blocks, of at most `most_queries` queries of one document each, into which the queries of row `row`
  /// are divided, in order.
  [[nodiscard]] std::vector<query_block> blocks(int64_t row, int64_t most_queries) const {
    const auto n = static_cast<size_t>(columns);
    return query_blocks(queries, most_queries, columns,
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

/// Compute attention and its gradients with the CPU kernel: inputs and results are fp32, bf16 or f16, everything
/// between is fp32.
at::Tensor fused_forward(const attention_work& work, const attention_tensors& in);
void fused_backward(const attention_work& work, const attention_tensors& in, const at::Tensor& dy,
                    const attention_tensors& out);

/// Results of the forward of attention that backward needs besides the inputs. Undefined on a device that recomputes
/// them, as the CPU does.
struct attention_results {
  at::Tensor y;         ///< output of attention, (B, T' queries, heads * head_width)
  at::Tensor log_sums;  ///< logarithms of the softmax's sums, in the shape that the device's library uses
};

struct attention_operations {  ///< functions that compute attention on one kind of device
  /// Returns the output, a new tensor, and sets `kept` to the results that backward will need.
  at::Tensor (*forward)(const attention_work& work, const attention_tensors& in, attention_results& kept);
  /// Writes the gradients of `in` to `out`, whose tensors have the same shapes, from dy, the contiguous gradient of the
  /// output. Keys that no query sees get gradient zero.
  void (*backward)(const attention_work& work, const attention_tensors& in, const attention_results& kept,
                   const at::Tensor& dy, const attention_tensors& out);
};

/// Returns the attention functions for the device of `t`; throws c10::Error if no library has registered any. The CPU's
/// choose one of two implementations by type, because the kernel does not support fp64.
const attention_operations& attention_for(const at::Tensor& t);

/// Registers `table`, which must live as long as the process, for all devices of `kind`; called by the code that
/// provides such devices (device::provide).
void provide(device::device_kind kind, const attention_operations& table);

/// Compute self_attention by the implementation in their names, whatever the type; tests compare the two.
at::Tensor composed_attention(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                              float dropout);
at::Tensor fused_attention(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                           float dropout);

}  // namespace troupe::models
