// The integers of a micro-batch (tokens, documents, orders of its inputs) as tensors on the device that computes with
// them. Owns their layout: views of the host's arrays, or one run of bytes that a single copy transfers to a device.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/token_order.hpp"
#include "models/segment/segment.hpp"

namespace troupe::models {

/// An order of a micro-batch's inputs (core::token_order) as three int64 tensors of one dimension.
struct ordered_places {
  at::Tensor ids, begin, order;
};

struct batch_numbers {
  at::Tensor tokens;     ///< tokens of the micro-batch: (B, T + 1), int64
  at::Tensor targets{};  ///< targets of the inputs: (B, T), int64; undefined: the next tokens
  /// First column of each input's document: (B, T), int32; undefined: a row is one document.
  at::Tensor document_start;
  at::Tensor places;  ///< (B, T), int64: each input's position in its document; undefined if each row is one document
  /// Inputs ordered by token, and by position in documents; undefined if the batch has no such order.
  ordered_places by_token, by_column;
  /// Shape (documents + 1), int32: the index of each document's first token among the B x T tokens of all rows, and B x
  /// T at the end; undefined if each row is one document.
  at::Tensor boundaries;
  int64_t longest_document = 0;  ///< number of tokens of the longest document; 0 if each row is one document
};

/// The six functions return one array of the micro-batch each, as a tensor on device `where`: the tensor in
/// `batch.numbers`, or, on the CPU, a view of the batch's array, which must outlive the tensor. They throw c10::Error
/// if the batch has no tensor for another device.
at::Tensor tokens_on(const micro_batch& batch, at::Device where);
at::Tensor targets_on(const micro_batch& batch, at::Device where);
at::Tensor document_start_on(const micro_batch& batch, at::Device where);
at::Tensor places_on(const micro_batch& batch, at::Device where);
ordered_places by_token_on(const micro_batch& batch, at::Device where);
ordered_places by_column_on(const micro_batch& batch, at::Device where);

/// Returns `order`, which need not be the batch's own, as views of its arrays in host memory; `order` must outlive
/// them.
ordered_places views_of(const core::token_order& order);

/// Packs all integers of a micro-batch into one run of bytes, each array at a multiple of 64 bytes, so that one copy
/// transfers them to a device.
class packed_numbers {
 public:
  /// Computes the layout; refers to `batch`, which must outlive this object.
  explicit packed_numbers(const micro_batch& batch);

  [[nodiscard]] uint64_t bytes() const { return bytes_; }
  /// Writes all numbers of the batch to `out`, which must have bytes() bytes.
  void write(std::byte* out) const;
  /// Returns tensors that are views of `bytes`, a copy on any device of what write() wrote; they keep its memory alive.
  [[nodiscard]] batch_numbers over(const at::Tensor& bytes) const;

 private:
  const micro_batch& batch_;
  std::vector<int32_t> boundaries_;  // result of boundaries_of(batch); empty if each row is one document
  uint64_t bytes_ = 0;
};

}  // namespace troupe::models
