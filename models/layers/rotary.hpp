// Rotary position embedding: pairs of a head's elements are rotated by an angle that grows with the token's position.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/dtype.hpp"
#include "models/layers/functions.hpp"
#include "models/table/rotary_positions.hpp"

namespace troupe::models {

/// Cosines and sines of all angles of sequences, each (positions, rotated elements / 2), in fp32 (fp64 for fp64).
struct angle_table {
  at::Tensor cosines, sines;
};

/// The angles of rotary positions. Element i of a head is rotated with element i + width / 2 of the `width` rotated
/// ones, as Hugging Face stores Llama's weights. Source: Su et al. 2021 (arXiv:2104.09864), section 3.
class rotary_angles {
 public:
  /// Computes the angles of `width` elements for sequences of 1 to `columns` tokens.
  rotary_angles(const rotary_positions& rope, uint32_t width, uint64_t columns, core::dtype type, at::Device where);
  /// Returns the angles of a batch whose sequences have `columns` tokens. The table lives as long as this object.
  [[nodiscard]] const angle_table& of(uint64_t columns) const { return columns <= usual_columns_ ? usual_ : beyond_; }

 private:
  uint64_t usual_columns_;
  angle_table usual_;   // angles of sequences of up to usual_columns_ tokens
  angle_table beyond_;  // angles of longer sequences, if their frequencies differ
};

/// How heads are rotated: the angles of the first `width` elements of each head; the other elements stay.
struct head_rotation {
  const angle_table* angles = nullptr;  ///< must outlive the segment; null: heads are not rotated
  int64_t width = 0;
};

/// Rotates the heads of q (B, T, heads * D) and k (B, T, kv_heads * D) at the tokens' positions, and returns q, k and v
/// of each token next to each other, as self_attention requires.
at::Tensor rotate_and_pack(const segment_scope& scope, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const attention_shape& shape, const head_rotation& by);

}  // namespace troupe::models
