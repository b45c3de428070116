#include "kernels/compress/searched_small_blocks.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "kernels/compress/block_codes.hpp"
#include "kernels/compress/small_blocks.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/compress/searched_small_blocks.cpp"
#include <hwy/foreach_target.h>

#include "kernels/compress/run_search-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
namespace {

using run_codes = std::array<float, small_block>;

/// Returns the grid of the best scale, which may be negative, and sets `q` to the codes, counted from 0 for the least
/// level of `of`. The scale of plain rounding is tried, too; the result is rounded to fp16.
template <class By>
block_grid plain_grid(const float* x, By by_column, level_range of, run_codes& q) {
  const float largest =
      *std::max_element(x, x + small_block, [](float a, float b) { return std::abs(a) < std::abs(b); });
  const float found = as_half(best_plain<small_block>(x, by_column, of)), plain = as_half(largest / of.least);
  const bool found_is_worse = plain_error<small_block>(x, by_column, plain, of, q.data()) <
                              plain_error<small_block>(x, by_column, found, of, q.data());
  const float scale = found_is_worse ? plain : found;
  plain_error<small_block>(x, by_column, scale, of, q.data());
  for (float& c : q) c -= of.least;
  return {.scale = scale, .offset = scale * of.least, .low = 0, .high = static_cast<int32_t>(of.most - of.least)};
}

/// Returns the grid of the best scale and offset, and sets `q` to the codes. best_affine() requires runs with values on
/// both sides of zero, so it gets the elements minus the middle of their range.
template <class By>
block_grid affine_grid(const float* x, By by_column, float top, run_codes& q) {
  const auto [low, high] = std::minmax_element(x, x + small_block);
  const float middle = *low / 2 + *high / 2;
  run_codes around{};
  std::transform(x, x + small_block, around.begin(), [&](float v) { return v - middle; });
  const auto best = best_affine<small_block>(around.data(), by_column, top);
  const float scale = as_half(best.scale), offset = as_half(middle - best.least) + 0.0F;  // adding 0 turns -0 into 0
  affine_error<small_block>(x, by_column, {scale, -offset}, top, q.data());
  return {.scale = scale, .offset = offset, .low = 0, .high = static_cast<int32_t>(top)};
}

}  // namespace

bool quantise_searched_here(block_format f, const float* in, const float* weights, std::byte* out) {
  if (!std::all_of(in, in + small_block, [](float v) { return std::abs(v) < out_of_reach; })) return false;
  const weighted by{weights};
  const bool five = f == block_format::q5_0 || f == block_format::q5_1;
  const bool affine = f == block_format::q4_1 || f == block_format::q5_1;
  const float top = five ? 31 : 15, half = five ? 16 : 8;
  run_codes q{};
  const auto grid = affine ? affine_grid(in, by, top, q) : plain_grid(in, by, {-half, half - 1}, q);
  if (std::isinf(grid.scale) || std::isinf(grid.offset)) return false;
  std::array<int16_t, small_block> codes{};
  std::ranges::transform(q, codes.begin(), [](float c) { return static_cast<int16_t>(c); });
  pack_block(f, grid, codes, out);
  return true;
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(quantise_searched_here);

bool quantise_searched(block_format f, const float* in, const float* weights, std::byte* out) {
  return HWY_DYNAMIC_DISPATCH(quantise_searched_here)(f, in, weights, out);
}
bool quantise_searched_reference(block_format f, const float* in, const float* weights, std::byte* out) {
  return HWY_STATIC_DISPATCH(quantise_searched_here)(f, in, weights, out);
}

}  // namespace troupe::kernels
#endif
