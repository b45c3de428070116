// Quantises blocks of GGUF's formats q4_k and q5_k: first searches a scale and an offset for each run of 32 elements
// alone; then expresses the scales and offsets of all eight runs as 6-bit integers times two fp16 factors, tries the
// neighbours of each integer, and fits the two factors again.
#include "kernels/compress/super_blocks.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/compress/small_blocks.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/compress/affine_super_blocks.cpp"
#include <hwy/foreach_target.h>

#include "kernels/compress/run_search-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
namespace {

constexpr uint32_t long_run = 32, long_runs = super_block / long_run;
constexpr float six_bits = 63;

/// A block of 256 elements in its stored form: eight runs with integer scales and minima.
struct affine_block {
  float d = 0, m = 0;  ///< factors of the integer scales s and of the integer offsets t, rounded to fp16
  std::array<float, long_runs> s{}, t{};
  std::array<float, super_block> q{};
  float error = infinity;
};

/// Returns the block whose runs have the scales d * s[r] and the offsets m * t[r]: each integer s[r], t[r] is the one
/// nearest to the searched values `wanted`, or one of its two neighbours, whichever has the least error.
template <class By>
affine_block with_factors(const float* x, By by_column, const std::array<affine_scale, long_runs>& wanted, float d,
                          float m, float top) {
  affine_block out{.d = d, .m = m, .error = 0};
  std::array<float, long_run> q{};
  for (uint32_t r = 0; r < long_runs; ++r) {
    const float s0 = d > 0 ? rounded_within(wanted[r].scale / d, 0, six_bits) : 0;
    const float t0 = m > 0 ? rounded_within(wanted[r].least / m, 0, six_bits) : 0;
    float least_error = infinity;
    for (float s = std::max(s0 - 1, 0.0F); s <= std::min(s0 + 1, six_bits); ++s) {
      for (float t = std::max(t0 - 1, 0.0F); t <= std::min(t0 + 1, six_bits); ++t) {
        const float error =
            affine_error<long_run>(x + r * long_run, by_column.from(r * long_run), {d * s, m * t}, top, q.data());
        if (!(error < least_error)) continue;
        least_error = error;
        out.s[r] = s;
        out.t[r] = t;
        std::copy(q.begin(), q.end(), out.q.begin() + r * long_run);
      }
    }
    out.error += least_error;
  }
  return out;
}

/// Returns the factors d and m, rounded to fp16, that have the least weighted squared error for the integers s, t and q
/// of block `b`.
template <class By>
std::array<float, 2> fitted_factors(const float* x, By by_block, const affine_block& b) {
  double uu = 0, uv = 0, vv = 0, ux = 0, vx = 0;
  for (uint32_t r = 0; r < long_runs; ++r) {
    const float* run = x + r * long_run;
    const float* q = b.q.data() + r * long_run;
    const auto by_column = by_block.from(r * long_run);
    const double s = b.s[r], t = b.t[r];
    const double sum_q = sum_of<long_run>([&](uint32_t i) { return by_column(i, q[i]); });
    uu += s * s * static_cast<double>(sum_of<long_run>([&](uint32_t i) { return by_column(i, q[i] * q[i]); }));
    uv += s * t * sum_q;
    vv += t * t * by_column.template count<long_run>();
    ux += s * static_cast<double>(sum_of<long_run>([&](uint32_t i) { return by_column(i, q[i] * run[i]); }));
    vx += t * static_cast<double>(sum_of<long_run>([&](uint32_t i) { return by_column(i, run[i]); }));
  }
  const double determinant = uu * vv - uv * uv;
  double d = static_cast<double>(b.d), m = static_cast<double>(b.m);
  if (determinant > 0) {
    d = (ux * vv - uv * vx) / determinant;
    m = (ux * uv - uu * vx) / determinant;
  } else if (uu > 0) {
    d = ux / uu;
  }
  return {as_half(static_cast<float>(std::max(d, 0.0))), as_half(static_cast<float>(std::max(m, 0.0)))};
}

/// Returns the block (scales, offsets and codes) with the least weighted squared error of the 256 elements at `x`.
/// `top` is the largest code: 15 for q4_k, 31 for q5_k. `by_column` weights the error of a column.
template <class By>
affine_block best_block(const float* x, By by_column, float top) {
  std::array<affine_scale, long_runs> wanted;
  float scale = 0, least = 0;
  for (uint32_t r = 0; r < long_runs; ++r) {
    wanted[r] = best_affine<long_run>(x + r * long_run, by_column.from(r * long_run), top);
    scale = std::max(scale, wanted[r].scale);
    least = std::max(least, wanted[r].least);
  }
  auto best = with_factors(x, by_column, wanted, as_half(scale / six_bits), as_half(least / six_bits), top);
  for (int n = 0; n < refits; ++n) {
    const auto [d, m] = fitted_factors(x, by_column, best);
    if (std::isinf(d) || std::isinf(m) || (d == best.d && m == best.m)) break;
    auto next = with_factors(x, by_column, wanted, d, m, top);
    if (!(next.error < best.error)) break;
    best = next;
  }
  return best;
}

uint8_t byte_of(float x) { return static_cast<uint8_t>(static_cast<int>(x)); }

/// Writes the factors d and m, and the runs' integers s and t packed into twelve bytes; returns false if a factor does
/// not fit fp16.
bool write_affine_head(const affine_block& b, std::byte* out) {
  if (!store_half(b.d, out) || !store_half(b.m, out + 2)) return false;
  for (uint32_t j = 0; j < 4; ++j) {
    const uint8_t s = byte_of(b.s[j]), t = byte_of(b.t[j]), s4 = byte_of(b.s[j + 4]), t4 = byte_of(b.t[j + 4]);
    out[4 + j] = static_cast<std::byte>(s | (s4 >> 4U) << 6U);
    out[8 + j] = static_cast<std::byte>(t | (t4 >> 4U) << 6U);
    out[12 + j] = static_cast<std::byte>((s4 & 15U) | (t4 & 15U) << 4U);
  }
  return true;
}

struct affine_head {
  std::array<float, long_runs> scale{}, least{};
};

bool read_affine_head(const std::byte* in, affine_head& out) {
  const float d = load_half(in), m = load_half(in + 2);
  if (!std::isfinite(d) || !std::isfinite(m)) return false;
  const auto at = [&](uint32_t i) { return std::to_integer<uint32_t>(in[4 + i]); };
  for (uint32_t j = 0; j < 4; ++j) {
    out.scale[j] = d * static_cast<float>(at(j) & 63U);
    out.least[j] = m * static_cast<float>(at(4 + j) & 63U);
    out.scale[j + 4] = d * static_cast<float>((at(8 + j) & 15U) | (at(j) >> 6U) << 4U);
    out.least[j + 4] = m * static_cast<float>(at(8 + j) >> 4U | (at(4 + j) >> 6U) << 4U);
  }
  return true;
}

constexpr uint32_t affine_head_bytes = 16, fifth_bytes = 32;

/// nibble_at returns the byte offset of the lower four bits of the code of element `i` of a run, and nibble_shift their
/// shift in that byte: two runs share 32 bytes.
constexpr uint32_t nibble_at(uint32_t run, uint32_t i) { return run / 2 * long_run + i; }
constexpr uint32_t nibble_shift(uint32_t run) { return run % 2 * 4; }

template <bool Fifth>
bool quantise_affine(const float* in, const float* weights, std::byte* out) {
  if (!is_in_reach(in)) return false;
  constexpr float top = Fifth ? 31 : 15;
  const auto block = weights == nullptr ? best_block(in, all_alike{}, top) : best_block(in, weighted{weights}, top);
  if (!write_affine_head(block, out)) return false;
  std::byte* high = out + affine_head_bytes;
  std::byte* low = high + (Fifth ? fifth_bytes : 0);
  std::memset(high, 0, static_cast<size_t>(low - high) + super_block / 2);
  for (uint32_t r = 0; r < long_runs; ++r)
    for (uint32_t i = 0; i < long_run; ++i) {
      const uint8_t q = byte_of(block.q[r * long_run + i]);
      low[nibble_at(r, i)] |= static_cast<std::byte>((q & 15U) << nibble_shift(r));
      if constexpr (Fifth) high[i] |= static_cast<std::byte>((q >> 4U) << r);
    }
  return true;
}

template <bool Fifth>
bool dequantise_affine(const std::byte* in, float* out) {
  affine_head head;
  if (!read_affine_head(in, head)) return false;
  const std::byte* high = in + affine_head_bytes;
  const std::byte* low = high + (Fifth ? fifth_bytes : 0);
  for (uint32_t r = 0; r < long_runs; ++r)
    for (uint32_t i = 0; i < long_run; ++i) {
      uint32_t q = std::to_integer<uint32_t>(low[nibble_at(r, i)]) >> nibble_shift(r) & 15U;
      if constexpr (Fifth) q |= (std::to_integer<uint32_t>(high[i]) >> r & 1U) << 4U;
      out[r * long_run + i] = head.scale[r] * static_cast<float>(q) - head.least[r];
    }
  return true;
}

}  // namespace

bool quantise_q4_k_here(const float* in, const float* w, std::byte* out) { return quantise_affine<false>(in, w, out); }
bool quantise_q5_k_here(const float* in, const float* w, std::byte* out) { return quantise_affine<true>(in, w, out); }
bool dequantise_q4_k_here(const std::byte* in, float* out) { return dequantise_affine<false>(in, out); }
bool dequantise_q5_k_here(const std::byte* in, float* out) { return dequantise_affine<true>(in, out); }

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(quantise_q4_k_here);
HWY_EXPORT(quantise_q5_k_here);
HWY_EXPORT(dequantise_q4_k_here);
HWY_EXPORT(dequantise_q5_k_here);

bool quantise_q4_k(const float* in, const float* weights, std::byte* out) {
  return HWY_DYNAMIC_DISPATCH(quantise_q4_k_here)(in, weights, out);
}
bool quantise_q4_k_reference(const float* in, const float* weights, std::byte* out) {
  return HWY_STATIC_DISPATCH(quantise_q4_k_here)(in, weights, out);
}
bool quantise_q5_k(const float* in, const float* weights, std::byte* out) {
  return HWY_DYNAMIC_DISPATCH(quantise_q5_k_here)(in, weights, out);
}
bool quantise_q5_k_reference(const float* in, const float* weights, std::byte* out) {
  return HWY_STATIC_DISPATCH(quantise_q5_k_here)(in, weights, out);
}
bool dequantise_q4_k(const std::byte* in, float* out) { return HWY_DYNAMIC_DISPATCH(dequantise_q4_k_here)(in, out); }
bool dequantise_q4_k_reference(const std::byte* in, float* out) {
  return HWY_STATIC_DISPATCH(dequantise_q4_k_here)(in, out);
}
bool dequantise_q5_k(const std::byte* in, float* out) { return HWY_DYNAMIC_DISPATCH(dequantise_q5_k_here)(in, out); }
bool dequantise_q5_k_reference(const std::byte* in, float* out) {
  return HWY_STATIC_DISPATCH(dequantise_q5_k_here)(in, out);
}

}  // namespace troupe::kernels
#endif
