// Products of small fp32 matrices, computed one tile of the result at a time, which stays in registers. Included once
// per SIMD target, after hwy/foreach_target.h. Owns the tiles; leaves blocking for the caches to the caller. Every
// element of the result is one chain of multiply-adds in the order of k (the inner dimension), whichever tile it is in.
#if defined(TROUPE_KERNELS_PRODUCT_TILE_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_PRODUCT_TILE_INL_HPP
#undef TROUPE_KERNELS_PRODUCT_TILE_INL_HPP
#else
#define TROUPE_KERNELS_PRODUCT_TILE_INL_HPP
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <utility>

#include "kernels/base/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

/// Number of rows of the largest tile: its running sums, one row of the right factor and one element of the left factor
/// fill the vector registers.
constexpr size_t tile_rows = 6;
constexpr size_t tile_vectors = HWY_TARGET == HWY_AVX3 ? 4 : 2;

/// The left factor of a product: element (i, k) is data[i * row + k * depth].
struct left_factor {
  const float* data;
  size_t row, depth;
};

/// The right factor of a product: row k begins at data + k * stride.
struct right_factor {
  const float* data;
  size_t stride;
};

enum class into : bool { fresh, sum };

template <into How, size_t Vectors, size_t... Cell, size_t... V>
HWY_INLINE void multiply_tile(std::index_sequence<Cell...>, std::index_sequence<V...>, left_factor a, right_factor b,
                              size_t depth, float* HWY_RESTRICT c, size_t c_stride) {
  const full d;
  const size_t lanes = hn::Lanes(d);
  const auto cell = [&](size_t i) HWY_ATTR { return c + i / Vectors * c_stride + i % Vectors * lanes; };
  floats<full> sum[] = {(How == into::sum ? hn::LoadU(d, cell(Cell)) : hn::Zero(d))...};
  for (size_t k = 0; k < depth; ++k, a.data += a.depth, b.data += b.stride) {
    const floats<full> row[] = {hn::LoadU(d, b.data + V * lanes)...};
    ((sum[Cell] = hn::MulAdd(hn::Set(d, a.data[Cell / Vectors * a.row]), row[Cell % Vectors], sum[Cell])), ...);
  }
  (hn::StoreU(sum[Cell], d, cell(Cell)), ...);
}

using tile_product = void (*)(left_factor a, right_factor b, size_t depth, float* c, size_t c_stride);

template <into How, size_t Rows, size_t Vectors>
void tile_of(left_factor a, right_factor b, size_t depth, float* c, size_t c_stride) {
  multiply_tile<How, Vectors>(std::make_index_sequence<Rows * Vectors>(), std::make_index_sequence<Vectors>(), a, b,
                              depth, c, c_stride);
}

template <into How, size_t... I>
tile_product tile_for(std::index_sequence<I...>, size_t rows, size_t vectors) {
  static constexpr tile_product all[] = {&tile_of<How, I / tile_vectors + 1, I % tile_vectors + 1>...};
  return all[(rows - 1) * tile_vectors + vectors - 1];
}

/// Computes c = a * b, or c += a * b: `rows` (at most tile_rows) x `vectors` whole vectors, sums over k < `depth`.
template <into How>
HWY_INLINE void multiply_rows(size_t rows, size_t vectors, left_factor a, right_factor b, size_t depth, float* c,
                              size_t c_stride) {
  const size_t lanes = hn::Lanes(full());
  for (size_t left = vectors; left > 0;) {
    const size_t tiles = (left + tile_vectors - 1) / tile_vectors, now = (left + tiles - 1) / tiles;
    tile_for<How>(std::make_index_sequence<tile_rows * tile_vectors>(), rows, now)(a, b, depth, c, c_stride);
    b.data += now * lanes;
    c += now * lanes;
    left -= now;
  }
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
