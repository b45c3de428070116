// The numbers of a micro-batch (tokens, documents, the order of its inputs) as tensors of the device that computes with
// them. Owns their layout: views of the host's arrays, or one run of bytes that a single copy transfers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/token_order.hpp"
#include "models/segment/segment.hpp"

namespace troupe::models {

/// A core::token_order as three tensors of one dimension, int64.
struct ordered_places {
  at::Tensor ids, begin, order;
};

struct batch_numbers {
  at::Tensor tokens;  ///< tokens of the micro-batch: (B, T + 1), int64
  /// First column of each input's document: (B, T), int32; undefined: a row is one document.
  at::Tensor document_start;
  at::Tensor places;                   ///< (B, T), int64: columns of inputs in documents; undefined without them
  ordered_places by_token, by_column;  ///< orders of the inputs by token and by column; undefined if the batch has none
  /// (documents + 1), int32: the first token of each document of all rows among the B x T tokens, and B x T at the end;
  /// undefined if each row is one document.
  at::Tensor boundaries;
  int64_t longest_document = 0;  ///< number of tokens of the longest document; 0 if each row is one document
};

/// Return one of the arrays on `where`: the tensor that `batch` contains, or, on the CPU, a view of its array, which
/// must outlive the tensor. Throw c10::Error if `batch` contains none for another device.
at::Tensor tokens_on(const micro_batch& batch, at::Device where);
at::Tensor document_start_on(const micro_batch& batch, at::Device where);
at::Tensor places_on(const micro_batch& batch, at::Device where);
ordered_places by_token_on(const micro_batch& batch, at::Device where);
ordered_places by_column_on(const micro_batch& batch, at::Device where);

/// Returns an order that is not the batch's own, as views of its arrays, for the CPU alone.
ordered_places views_of(const core::token_order& order);

/// Packs all numbers of a micro-batch into one run of bytes, each array at a multiple of 64 bytes.
class packed_numbers {
 public:
  /// Requires `batch` to outlive this object.
  explicit packed_numbers(const micro_batch& batch);

  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  /// Writes all numbers of the batch to `out`, which must have bytes() bytes.
  void write(std::byte* out) const;
  /// Returns tensors over `bytes`, a copy of that run on any device, whose memory they keep alive.
  [[nodiscard]] batch_numbers over(const at::Tensor& bytes) const;

 private:
  const micro_batch& batch_;
  std::vector<int32_t> boundaries_;  // first token of each document, and the end; empty if each row is one document
  uint64_t bytes_ = 0;
};

}  // namespace troupe::models
