// The work of causal attention on one micro-batch, and its two implementations on the CPU, which choose by type;
// attention.cpp gives the device's a history.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "device/device_id.hpp"
#include "models/layers/dropout.hpp"
#include "models/layers/functions.hpp"
#include "models/segment/documents.hpp"

namespace troupe::models {

/// What forward and backward of a micro-batch share.
struct attention_work {
  attention_shape shape;
  dropout_masks masks;
  std::span<const uint32_t> starts;  ///< of documents, for all rows and columns; empty: each row is one document
  core::column_set queries;          ///< columns that attend
  int64_t columns = 0;               ///< of keys and values: all
  at::Tensor boundaries{};           ///< of documents on a device that does not read the host's memory, batch_numbers'
  int64_t longest_document = 0;      ///< likewise

  /// The blocks of row `row`, in order.
  [[nodiscard]] std::vector<query_block> blocks(int64_t row, int64_t most_queries) const {
    const auto n = static_cast<size_t>(columns);
    return query_blocks(queries, most_queries,
                        starts.empty() ? starts : starts.subspan(static_cast<size_t>(row) * n, n));
  }
};

/// (B, T', heads * head_width) of the columns that attend, (B, T, 2 * kv_heads * head_width) of all. Tokens may lie
/// apart, the elements of one side by side.
struct attention_tensors {
  at::Tensor queries, keys;
};

/// Composed of LibTorch's own operations, each rounded to the type of the tensors: any floating type. The readable one.
at::Tensor composed_forward(const attention_work& work, const attention_tensors& in);
/// Fills `out`, which is like `in`, from dy (B, T', heads * head_width), contiguous. Keys that no query sees get zero.
void composed_backward(const attention_work& work, const attention_tensors& in, const at::Tensor& dy,
                       const attention_tensors& out);

/// Through the CPU kernel, in fp32 between the tensors and the result: fp32, bf16 and f16.
at::Tensor fused_forward(const attention_work& work, const attention_tensors& in);
void fused_backward(const attention_work& work, const attention_tensors& in, const at::Tensor& dy,
                    const attention_tensors& out);

/// What backward of an attention wants beside its inputs. Undefined on a device that forms both anew, as the CPU does.
struct attention_results {
  at::Tensor y;         ///< (B, T', heads * head_width): the output
  at::Tensor log_sums;  ///< logarithms of the softmax's sums, in the device's own shape
};

struct attention_operations {  ///< of one device
  /// The output, a tensor of its own, and in `kept` what backward wants.
  at::Tensor (*forward)(const attention_work& work, const attention_tensors& in, attention_results& kept);
  /// Fills `out`, which is like `in`, from dy, which is like the output and contiguous. Keys that no query sees get
  /// zero.
  void (*backward)(const attention_work& work, const attention_tensors& in, const attention_results& kept,
                   const at::Tensor& dy, const attention_tensors& out);
};

/// Those of the device of `t`; throws c10::Error where nobody provides them. The CPU's choose one of its two
/// implementations by type: the kernel does not take fp64.
const attention_operations& attention_for(const at::Tensor& t);

/// Makes `table`, which lives as long as the process, that of every device of `kind`; see device::provide.
void provide(device::device_kind kind, const attention_operations& table);

/// causal_attention by one of them, whatever the type.
at::Tensor composed_attention(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                              float dropout);
at::Tensor fused_attention(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                           float dropout);

}  // namespace troupe::models
