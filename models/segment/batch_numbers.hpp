// The numbers of a micro-batch (tokens, documents, the order of its inputs) as tensors of the device that computes with
// them. Owns how they lie there: views of the host's arrays, or one run of bytes that a single copy takes up.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/token_order.hpp"
#include "models/segment/segment.hpp"

namespace troupe::models {

/// core::token_order in three tensors of one dimension, int64.
struct ordered_places {
  at::Tensor ids, begin, order;
};

struct batch_numbers {
  at::Tensor tokens;                   ///< (B, T + 1), int64
  at::Tensor document_start;           ///< (B, T), int32; undefined where each row is one document
  at::Tensor places;                   ///< (B, T), int64: the column of each input in its document; likewise
  ordered_places by_token, by_column;  ///< undefined where the batch has none
  /// (documents + 1), int32: where documents of all rows begin among the B x T tokens, and B x T; undefined where each
  /// row is one document.
  at::Tensor boundaries;
  int64_t longest_document = 0;  ///< tokens of it; 0 where each row is one document
};

/// One of the arrays on `where`: what `batch` brings along, or, on the CPU, a view of its array, which must outlive it.
/// Throws c10::Error where it brings none along to another device.
at::Tensor tokens_on(const micro_batch& batch, at::Device where);
at::Tensor document_start_on(const micro_batch& batch, at::Device where);
at::Tensor places_on(const micro_batch& batch, at::Device where);
ordered_places by_token_on(const micro_batch& batch, at::Device where);
ordered_places by_column_on(const micro_batch& batch, at::Device where);

/// An order that is not the batch's own, as views of its arrays, for the CPU alone.
ordered_places views_of(const core::token_order& order);

/// All numbers of a micro-batch in one run of bytes, each array at a multiple of 64.
class packed_numbers {
 public:
  /// `batch` outlives it.
  explicit packed_numbers(const micro_batch& batch);

  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  /// Writes them to `out`, which has so many bytes.
  void write(std::byte* out) const;
  /// The tensors over a copy of that run: `bytes`, on any device, whose memory they keep.
  [[nodiscard]] batch_numbers over(const at::Tensor& bytes) const;

 private:
  const micro_batch& batch_;
  std::vector<int32_t> boundaries_;  // empty where each row is one document
  uint64_t bytes_ = 0;
};

}  // namespace troupe::models
