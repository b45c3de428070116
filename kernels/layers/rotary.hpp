// Rotary positions on the heads of one token, and of all tokens of a batch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"

namespace troupe::kernels {

/// Turns `heads` heads of `width` elements of `type` (f32, bf16 or f16) by the angles whose `width` / 2 cosines and
/// sines are given: element i of a head turns with element i + width / 2, in fp32, rounded once. `back` turns the other
/// way. `to` may be `from`. Source: Su et al. 2021 (arXiv:2104.09864), section 3.
void turn_heads(const std::byte* from, std::byte* to, core::dtype type, uint64_t heads, uint64_t width,
                const float* cosines, const float* sines, bool back);

/// Which heads of every token are moved: `heads` of `width` elements of `type`, side by side, from `from` to `to`,
/// which advance by so many bytes from token to token.
struct token_heads {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  uint64_t from_stride = 0, to_stride = 0;
  core::dtype type = core::dtype::f32;
  uint64_t tokens = 0, heads = 0, width = 0;
};

/// Angles by position, (positions, width / 2) each, in fp32 (fp64 for f64), and every token's position: its column less
/// where its document starts, for which `starts` has a number for each token; null: rows are documents.
struct rotary_table {
  const std::byte* cosines = nullptr;  ///< null: heads are moved and not turned
  const std::byte* sines = nullptr;
  const int32_t* starts = nullptr;
  uint64_t columns = 1;  ///< of a row
  bool back = false;
};

/// Moves heads, turned by their positions (`turn_heads`), or as they are.
void turn_tokens(const token_heads& x, const rotary_table& table);

/// The scalar twin: the same bits for `Wide` float; fp64 throughout for double, the elements then being f64.
template <class Wide>
void turn_heads_reference(const std::byte* from, std::byte* to, core::dtype type, uint64_t heads, uint64_t width,
                          const Wide* cosines, const Wide* sines, bool back);

}  // namespace troupe::kernels
