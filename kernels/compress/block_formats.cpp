#include "kernels/compress/block_formats.hpp"

#include "kernels/compress/searched_small_blocks.hpp"
#include "kernels/compress/small_blocks.hpp"
#include "kernels/compress/super_blocks.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/compress/block_formats.cpp"
#include <hwy/foreach_target.h>

#include "kernels/base/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

/// A vector of this type has at most half a block's elements, in a number of lanes that divides them.
using half_block_tag = hn::CappedTag<float, half_block>;
using byte_lanes = hn::Rebind<uint8_t, half_block_tag>;
using word_lanes = hn::RebindToSigned<half_block_tag>;

/// Largest magnitude of a block's elements, and, for formats with an offset, the least and the largest element.
struct block_range {
  uint32_t magnitude = 0;  ///< fp32 bits of the largest |x| in the block
  float low = 0, high = 0;
};

template <bool Affine>
HWY_INLINE block_range range_of(const float* in) {
  const half_block_tag d;
  const hn::RebindToUnsigned<half_block_tag> du;
  auto largest = hn::Zero(du);
  auto low = hn::LoadU(d, in), high = low;
  for (size_t i = 0; i < small_block; i += hn::Lanes(d)) {
    const auto x = hn::LoadU(d, in + i);
    largest = hn::Max(largest, hn::BitCast(du, hn::Abs(x)));
    if constexpr (Affine) {
      low = hn::Min(low, x);
      high = hn::Max(high, x);
    }
  }
  block_range out;
  out.magnitude = hn::GetLane(hn::MaxOfLanes(du, largest));
  if constexpr (Affine) {
    out.low = hn::GetLane(hn::MinOfLanes(d, low));
    out.high = hn::GetLane(hn::MaxOfLanes(d, high));
  }
  return out;
}

/// Returns the first element of the block whose magnitude has the bits `magnitude`.
HWY_INLINE float first_of(const float* in, uint32_t magnitude) {
  const half_block_tag d;
  const hn::RebindToUnsigned<half_block_tag> du;
  for (size_t i = 0; i < small_block; i += hn::Lanes(d)) {
    const auto same = hn::Eq(hn::BitCast(du, hn::Abs(hn::LoadU(d, in + i))), hn::Set(du, magnitude));
    if (const auto at = hn::FindFirstTrue(du, same); at >= 0) return in[i + static_cast<size_t>(at)];
  }
  return 0;
}

template <block_format F>
HWY_INLINE bool quantise_one(const float* in, std::byte* out) {
  const half_block_tag d;
  const word_lanes di;
  constexpr bool affine = F == block_format::q4_1;
  const auto range = range_of<affine>(in);
  if (range.magnitude >= infinite_bits) return false;
  const auto largest = F == block_format::q8_0 ? std::bit_cast<float>(range.magnitude)
                       : affine                ? 0.0F
                                               : first_of(in, range.magnitude);
  const auto s = write_scale<F>(largest, range.low, range.high, out);
  if (!s.fits) return false;
  const auto by = hn::Set(d, s.reciprocal);
  if constexpr (F == block_format::q8_0) {
    const hn::Rebind<int8_t, half_block_tag> d8;
    auto* to = reinterpret_cast<int8_t*>(out + 2);
    for (size_t i = 0; i < small_block; i += hn::Lanes(d)) {
      const auto v = hn::Mul(hn::LoadU(d, in + i), by);
      const auto a = hn::Abs(v), whole = hn::Floor(a);
      const auto up = hn::IfThenElseZero(hn::Ge(hn::Sub(a, whole), hn::Set(d, 0.5F)), hn::Set(d, 1.0F));
      const auto rounded = hn::Min(hn::Add(whole, up), hn::Set(d, 127.0F));
      hn::StoreU(hn::DemoteTo(d8, hn::ConvertTo(di, hn::CopySign(rounded, v))), d8, to + i);
    }
  } else {
    const byte_lanes d8;
    auto* to = reinterpret_cast<uint8_t*>(out + (affine ? 4 : 2));
    const auto integers = [&](size_t i) HWY_ATTR {
      auto x = hn::LoadU(d, in + i);
      if constexpr (affine) x = hn::Sub(x, hn::Set(d, s.least));
      const auto v = hn::Add(hn::Mul(x, by), hn::Set(d, affine ? 0.5F : 8.5F));
      return hn::Min(hn::ConvertTo(di, v), hn::Set(di, 15));
    };
    for (size_t i = 0; i < half_block; i += hn::Lanes(d)) {
      const auto both = hn::Or(integers(i), hn::ShiftLeft<4>(integers(i + half_block)));
      hn::StoreU(hn::DemoteTo(d8, both), d8, to + i);
    }
  }
  return true;
}

template <block_format F>
HWY_INLINE bool dequantise_one(const std::byte* in, float* out) {
  const half_block_tag d;
  const word_lanes di;
  constexpr bool affine = F == block_format::q4_1;
  const float scale = load_half(in), least = affine ? load_half(in + 2) : 0.0F;
  if (magnitude_bits(scale) >= infinite_bits || magnitude_bits(least) >= infinite_bits) return false;
  const auto by = hn::Set(d, scale);
  if constexpr (F == block_format::q8_0) {
    const hn::Rebind<int8_t, half_block_tag> d8;
    const auto* from = reinterpret_cast<const int8_t*>(in + 2);
    for (size_t i = 0; i < small_block; i += hn::Lanes(d))
      hn::StoreU(hn::Mul(hn::ConvertTo(d, hn::PromoteTo(di, hn::LoadU(d8, from + i))), by), d, out + i);
  } else {
    const byte_lanes d8;
    const auto* from = reinterpret_cast<const uint8_t*>(in + (affine ? 4 : 2));
    const auto value = [&](auto q) HWY_ATTR {
      if constexpr (affine) return hn::Add(hn::Mul(by, hn::ConvertTo(d, q)), hn::Set(d, least));
      return hn::Mul(by, hn::ConvertTo(d, hn::Sub(q, hn::Set(di, 8))));
    };
    for (size_t i = 0; i < half_block; i += hn::Lanes(d)) {
      const auto both = hn::PromoteTo(di, hn::LoadU(d8, from + i));
      hn::StoreU(value(hn::And(both, hn::Set(di, 15))), d, out + i);
      hn::StoreU(value(hn::ShiftRight<4>(both)), d, out + half_block + i);
    }
  }
  return true;
}

template <block_format F>
uint64_t quantise_all(const float* in, uint64_t blocks, std::byte* out) {
  for (uint64_t b = 0; b < blocks; ++b)
    if (!quantise_one<F>(in + b * small_block, out + b * bytes_of(F))) return b;
  return no_block;
}
template <block_format F>
uint64_t dequantise_all(const std::byte* in, uint64_t blocks, float* out) {
  for (uint64_t b = 0; b < blocks; ++b)
    if (!dequantise_one<F>(in + b * bytes_of(F), out + b * small_block)) return b;
  return no_block;
}

uint64_t quantise_vectors(block_format f, const float* in, uint64_t blocks, std::byte* out) {
  if (f == block_format::q8_0) return quantise_all<block_format::q8_0>(in, blocks, out);
  if (f == block_format::q4_0) return quantise_all<block_format::q4_0>(in, blocks, out);
  return quantise_all<block_format::q4_1>(in, blocks, out);
}
uint64_t dequantise_vectors(block_format f, const std::byte* in, uint64_t blocks, float* out) {
  if (f == block_format::q8_0) return dequantise_all<block_format::q8_0>(in, blocks, out);
  if (f == block_format::q4_0) return dequantise_all<block_format::q4_0>(in, blocks, out);
  return dequantise_all<block_format::q4_1>(in, blocks, out);
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(quantise_vectors);
HWY_EXPORT(dequantise_vectors);

namespace {

/// True for the formats that have SIMD code in this file, in which most models are stored. Formats q5_0 and q5_1 are
/// rare and computed by scalar code; formats of 256 elements select their SIMD target in files of their own.
bool has_vectors(block_format f) {
  return f == block_format::q8_0 || f == block_format::q4_0 || f == block_format::q4_1;
}

using quantise_function = bool (*)(const float*, const float*, std::byte*);
using dequantise_function = bool (*)(const std::byte*, float*);

quantise_function quantiser_of(block_format f, bool reference) {
  switch (f) {
    case block_format::q8_0:
      return [](const float* in, const float*, std::byte* out) { return quantise_small<block_format::q8_0>(in, out); };
    case block_format::q4_0:
      return [](const float* in, const float*, std::byte* out) { return quantise_small<block_format::q4_0>(in, out); };
    case block_format::q4_1:
      return [](const float* in, const float*, std::byte* out) { return quantise_small<block_format::q4_1>(in, out); };
    case block_format::q5_0:
      return [](const float* in, const float*, std::byte* out) { return quantise_small<block_format::q5_0>(in, out); };
    case block_format::q5_1:
      return [](const float* in, const float*, std::byte* out) { return quantise_small<block_format::q5_1>(in, out); };
    case block_format::q4_k:
      return reference ? quantise_q4_k_reference : quantise_q4_k;
    case block_format::q5_k:
      return reference ? quantise_q5_k_reference : quantise_q5_k;
    case block_format::q6_k:
      return reference ? quantise_q6_k_reference : quantise_q6_k;
  }
  return nullptr;
}

dequantise_function dequantiser_of(block_format f, bool reference) {
  switch (f) {
    case block_format::q8_0:
      return dequantise_small<block_format::q8_0>;
    case block_format::q4_0:
      return dequantise_small<block_format::q4_0>;
    case block_format::q4_1:
      return dequantise_small<block_format::q4_1>;
    case block_format::q5_0:
      return dequantise_small<block_format::q5_0>;
    case block_format::q5_1:
      return dequantise_small<block_format::q5_1>;
    case block_format::q4_k:
      return reference ? dequantise_q4_k_reference : dequantise_q4_k;
    case block_format::q5_k:
      return reference ? dequantise_q5_k_reference : dequantise_q5_k;
    case block_format::q6_k:
      return reference ? dequantise_q6_k_reference : dequantise_q6_k;
  }
  return nullptr;
}

uint64_t quantise_one_by_one(block_format f, const float* in, uint64_t blocks, std::byte* out, bool reference) {
  const auto one = quantiser_of(f, reference);
  for (uint64_t b = 0; b < blocks; ++b)
    if (!one(in + b * elements_of(f), nullptr, out + b * bytes_of(f))) return b;
  return no_block;
}

uint64_t dequantise_one_by_one(block_format f, const std::byte* in, uint64_t blocks, float* out, bool reference) {
  const auto one = dequantiser_of(f, reference);
  for (uint64_t b = 0; b < blocks; ++b)
    if (!one(in + b * bytes_of(f), out + b * elements_of(f))) return b;
  return no_block;
}

}  // namespace

uint64_t quantise_blocks(block_format f, const float* in, uint64_t blocks, std::byte* out) {
  if (has_vectors(f)) return HWY_DYNAMIC_DISPATCH(quantise_vectors)(f, in, blocks, out);
  return quantise_one_by_one(f, in, blocks, out, false);
}

uint64_t quantise_blocks_weighted(block_format f, const float* in, const float* weights, uint64_t row_blocks,
                                  uint64_t blocks, std::byte* out) {
  if (f == block_format::q8_0) return quantise_blocks(f, in, blocks, out);
  const auto one = quantiser_of(f, false);
  for (uint64_t b = 0; b < blocks; ++b) {
    const float *x = in + b * elements_of(f), *w = weights + b % row_blocks * elements_of(f);
    std::byte* const to = out + b * bytes_of(f);
    if (!(elements_of(f) == small_block ? quantise_searched(f, x, w, to) : one(x, w, to))) return b;
  }
  return no_block;
}

uint64_t dequantise_blocks(block_format f, const std::byte* in, uint64_t blocks, float* out) {
  if (has_vectors(f)) return HWY_DYNAMIC_DISPATCH(dequantise_vectors)(f, in, blocks, out);
  return dequantise_one_by_one(f, in, blocks, out, false);
}

uint64_t quantise_blocks_reference(block_format f, const float* in, uint64_t blocks, std::byte* out) {
  return quantise_one_by_one(f, in, blocks, out, true);
}

uint64_t dequantise_blocks_reference(block_format f, const std::byte* in, uint64_t blocks, float* out) {
  return dequantise_one_by_one(f, in, blocks, out, true);
}

}  // namespace troupe::kernels
#endif
