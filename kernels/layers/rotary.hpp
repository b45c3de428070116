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

/// Heads of every token to move from `from` to `to`: `heads` of `width` elements of `type`, next to each other. The
/// strides are the bytes between tokens.
struct token_heads {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  uint64_t from_stride = 0, to_stride = 0;
  core::dtype type = core::dtype::f32;
  uint64_t tokens = 0, heads = 0, width = 0;
};

/// Cosines and sines by position, (positions, width / 2) each, in fp32 (fp64 for f64). A token's position is its column
/// minus the start of its document: `starts` has a number for each token; if null, each row is a document.
struct rotary_table {
  const std::byte* cosines = nullptr;  ///< cosines by position; null: heads are moved and not rotated
  const std::byte* sines = nullptr;
  const int32_t* starts = nullptr;
  uint64_t columns = 1;  ///< number of columns of a row
  bool back = false;
};

/// Moves heads, rotated by their positions (`turn_heads`), or unchanged if the table has no cosines.
void turn_tokens(const token_heads& x, const rotary_table& table);

/// The scalar twin of turn_heads: the same bits if `Wide` is float; fp64 throughout if it is double, with f64 elements.
template <class Wide>
void turn_heads_reference(const std::byte* from, std::byte* to, core::dtype type, uint64_t heads, uint64_t width,
                          const Wide* cosines, const Wide* sines, bool back);

}  // namespace troupe::kernels
