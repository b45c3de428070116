// Rotary position embedding of the heads of one token, and of all tokens of a batch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"

namespace troupe::kernels {

/// Rotates `heads` heads of `width` elements of `type` (f32, bf16 or f16) by angles with the given `width` / 2 cosines
/// and sines: element i of a head is rotated with element i + width / 2, in fp32, rounded once. `back` rotates in the
/// other direction. `to` may be `from`. Source: Su et al. 2021 (arXiv:2104.09864), section 3.
void turn_heads(const std::byte* from, std::byte* to, core::dtype type, uint64_t heads, uint64_t width,
                const float* cosines, const float* sines, bool back);

/// Where turn_tokens() reads and writes heads: each token has `heads` heads of `width` elements of `type`, next to each
/// other; the strides are the bytes between tokens at `from` and at `to`.
struct token_heads {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  uint64_t from_stride = 0, to_stride = 0;
  core::dtype type = core::dtype::f32;
  uint64_t tokens = 0, heads = 0, width = 0;
};

/// Tables of cosines and sines, each of shape (positions, width / 2), in fp32 (fp64 for f64). A token's position is its
/// column in its row minus the column where its document starts: `starts` has that column for each token; if null, each
/// row is one document.
struct rotary_table {
  const std::byte* cosines = nullptr;  ///< table of cosines; null: heads are copied without rotation
  const std::byte* sines = nullptr;
  const int32_t* starts = nullptr;
  uint64_t columns = 1;  ///< number of tokens of a row
  bool back = false;
};

/// Copies the heads of all tokens from `x.from` to `x.to`, rotated by the tokens' positions (turn_heads), or unchanged
/// if the table has no cosines.
void turn_tokens(const token_heads& x, const rotary_table& table);

/// Scalar implementation of turn_heads. With `Wide` = float it has the same bits, for tests; with `Wide` = double and
/// f64 elements it computes in fp64, for models in fp64.
template <class Wide>
void turn_heads_reference(const std::byte* from, std::byte* to, core::dtype type, uint64_t heads, uint64_t width,
                          const Wide* cosines, const Wide* sines, bool back);

}  // namespace troupe::kernels
