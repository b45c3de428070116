// A run's scale is looked for first, alone; then all runs' scales become small integers of one factor, each tries its
// neighbours, and the factors are fitted again to what was chosen.
#include "kernels/super_blocks.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "kernels/block_formats.hpp"
#include "kernels/small_blocks.hpp"

namespace troupe::kernels {
namespace {

constexpr uint32_t super_block = 256;
constexpr uint32_t long_run = 32, long_runs = super_block / long_run;
constexpr uint32_t short_run = 16, short_runs = super_block / short_run;
constexpr int first_scales = 21;  ///< of a run that are tried, in steps of `scale_step` levels around the plain one
constexpr float scale_step = 0.1F;
constexpr int refits = 2;  ///< of the factors
constexpr float six_bits = 63, seven_bits = 127;
constexpr float infinity = std::numeric_limits<float>::infinity();
/// No factor in fp16 reaches such values, and below it no square overflows.
constexpr float out_of_reach = 0x1p30F;

bool is_in_reach(const float* x) {
  return std::all_of(x, x + super_block, [](float v) { return std::abs(v) < out_of_reach; });
}

/// To nearest even, for values far below 2^22; a form that compilers turn into vectors.
inline float rounded(float x) {
  constexpr float shift = 0x1.8p23F;
  return (x + shift) - shift;
}
inline float rounded_within(float x, float low, float high) { return rounded(std::min(std::max(x, low), high)); }

/// A sum in eight lanes, whose order does not depend on the processor.
struct lanes {
  static constexpr uint32_t count = 8;
  std::array<float, count> of{};
  [[nodiscard]] float sum() const { return ((of[0] + of[4]) + (of[2] + of[6])) + ((of[1] + of[5]) + (of[3] + of[7])); }
};

/// `each(i)` over [0, N), added up.
template <uint32_t N, class Each>
float sum_of(Each&& each) {
  lanes out;
  for (uint32_t i = 0; i < N; i += lanes::count)
    for (uint32_t l = 0; l < lanes::count; ++l) out.of[l] += each(i + l);
  return out.sum();
}

/// Values are about scale * q - least; least is not negative.
struct affine_scale {
  float scale = 0, least = 0;
};

/// Σ (scale * q - least - x)² with the best q from 0 to `top`, which are written to `q`.
template <uint32_t N>
float affine_error(const float* x, affine_scale s, float top, float* q) {
  const float by = s.scale > 0 ? 1.0F / s.scale : 0.0F;
  const float factor = std::isinf(by) ? 0.0F : by;
  for (uint32_t i = 0; i < N; ++i) q[i] = rounded_within((x[i] + s.least) * factor, 0, top);
  return sum_of<N>([&](uint32_t i) {
    const float e = s.scale * q[i] - s.least - x[i];
    return e * e;
  });
}

/// The least squares scale and offset for given q.
template <uint32_t N>
affine_scale affine_fit(const float* x, const float* q) {
  const auto count = static_cast<double>(N);
  const double sum_x = sum_of<N>([&](uint32_t i) { return x[i]; });
  const double sum_q = sum_of<N>([&](uint32_t i) { return q[i]; });
  const double sum_qq = sum_of<N>([&](uint32_t i) { return q[i] * q[i]; });
  const double sum_xq = sum_of<N>([&](uint32_t i) { return x[i] * q[i]; });
  const double determinant = count * sum_qq - sum_q * sum_q;
  if (determinant <= 0) {  // one level for all
    if (sum_x > 0 && sum_q > 0) return {static_cast<float>(sum_x / sum_q), 0};
    return {0, static_cast<float>(std::max(-sum_x / count, 0.0))};
  }
  double scale = (count * sum_xq - sum_x * sum_q) / determinant;
  double least = (scale * sum_q - sum_x) / count;
  if (least < 0) {
    least = 0;
    scale = sum_xq / sum_qq;
  }
  return {static_cast<float>(std::max(scale, 0.0)), static_cast<float>(least)};
}

/// The scale of one run alone, from many first ones, each fitted once; the best is fitted until that stops helping.
template <uint32_t N>
affine_scale best_affine(const float* x, float top) {
  float low = std::min(x[0], 0.0F), high = x[0];
  for (uint32_t i = 1; i < N; ++i) {
    low = std::min(low, x[i]);
    high = std::max(high, x[i]);
  }
  if (!(high > low)) return {0, -low};
  std::array<float, N> q{}, unused{};
  affine_scale best{0, -low};
  float least_error = infinity;
  for (int k = 0; k < first_scales; ++k) {
    const float levels = top + scale_step * static_cast<float>(k - first_scales / 2);
    affine_error<N>(x, {(high - low) / levels, -low}, top, q.data());
    const auto fit = affine_fit<N>(x, q.data());
    const float error = affine_error<N>(x, fit, top, unused.data());
    if (error < least_error) {
      least_error = error;
      best = fit;
    }
  }
  return best;
}

/// A block of eight runs as it is stored.
struct affine_block {
  float d = 0, m = 0;  ///< factors of scales and offsets, with the bits of an fp16
  std::array<float, long_runs> s{}, t{};
  std::array<float, super_block> q{};
  float error = infinity;
};

float as_half(float x) { return float_from_f16(f16_from_float(x)); }

/// Scales and offsets as integers of the factors d and m: the nearest ones to `wanted` or one beside them.
affine_block with_factors(const float* x, const std::array<affine_scale, long_runs>& wanted, float d, float m,
                          float top) {
  affine_block out{.d = d, .m = m, .error = 0};
  std::array<float, long_run> q{};
  for (uint32_t r = 0; r < long_runs; ++r) {
    const float s0 = d > 0 ? rounded_within(wanted[r].scale / d, 0, six_bits) : 0;
    const float t0 = m > 0 ? rounded_within(wanted[r].least / m, 0, six_bits) : 0;
    float least_error = infinity;
    for (float s = std::max(s0 - 1, 0.0F); s <= std::min(s0 + 1, six_bits); ++s) {
      for (float t = std::max(t0 - 1, 0.0F); t <= std::min(t0 + 1, six_bits); ++t) {
        const float error = affine_error<long_run>(x + r * long_run, {d * s, m * t}, top, q.data());
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

/// Factors that fit the block's integers best.
std::array<float, 2> fitted_factors(const float* x, const affine_block& b) {
  double uu = 0, uv = 0, vv = 0, ux = 0, vx = 0;
  for (uint32_t r = 0; r < long_runs; ++r) {
    const float* run = x + r * long_run;
    const float* q = b.q.data() + r * long_run;
    const double s = b.s[r], t = b.t[r];
    const double sum_q = sum_of<long_run>([&](uint32_t i) { return q[i]; });
    uu += s * s * static_cast<double>(sum_of<long_run>([&](uint32_t i) { return q[i] * q[i]; }));
    uv += s * t * sum_q;
    vv += t * t * static_cast<double>(long_run);
    ux += s * static_cast<double>(sum_of<long_run>([&](uint32_t i) { return q[i] * run[i]; }));
    vx += t * static_cast<double>(sum_of<long_run>([&](uint32_t i) { return run[i]; }));
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

/// The search of both affine formats.
affine_block best_block(const float* x, float top) {
  std::array<affine_scale, long_runs> wanted;
  float scale = 0, least = 0;
  for (uint32_t r = 0; r < long_runs; ++r) {
    wanted[r] = best_affine<long_run>(x + r * long_run, top);
    scale = std::max(scale, wanted[r].scale);
    least = std::max(least, wanted[r].least);
  }
  auto best = with_factors(x, wanted, as_half(scale / six_bits), as_half(least / six_bits), top);
  for (int n = 0; n < refits; ++n) {
    const auto [d, m] = fitted_factors(x, best);
    if (std::isinf(d) || std::isinf(m) || (d == best.d && m == best.m)) break;
    auto next = with_factors(x, wanted, d, m, top);
    if (!(next.error < best.error)) break;
    best = next;
  }
  return best;
}

uint8_t byte_of(float x) { return static_cast<uint8_t>(static_cast<int>(x)); }

/// d, m and the twelve bytes of scales and offsets.
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

/// Where a run's nibbles lie: two runs share 32 bytes.
constexpr uint32_t nibble_at(uint32_t run, uint32_t i) { return run / 2 * long_run + i; }
constexpr uint32_t nibble_shift(uint32_t run) { return run % 2 * 4; }

template <bool Fifth>
bool quantise_affine(const float* in, std::byte* out) {
  if (!is_in_reach(in)) return false;
  const auto block = best_block(in, Fifth ? 31 : 15);
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

// q6_k: no offset, q from -32 to 31.
constexpr float least_six = -32, most_six = 31;

float plain_error(const float* x, float scale, float* q) {
  const float by = scale == 0 ? 0.0F : 1.0F / scale;
  const float factor = std::isinf(by) ? 0.0F : by;
  for (uint32_t i = 0; i < short_run; ++i) q[i] = rounded_within(x[i] * factor, least_six, most_six);
  return sum_of<short_run>([&](uint32_t i) {
    const float e = scale * q[i] - x[i];
    return e * e;
  });
}

float plain_fit(const float* x, const float* q) {
  const float qq = sum_of<short_run>([&](uint32_t i) { return q[i] * q[i]; });
  return qq > 0 ? sum_of<short_run>([&](uint32_t i) { return x[i] * q[i]; }) / qq : 0.0F;
}

/// A scale of either sign: the largest element may take the one level that only one side has.
float best_plain(const float* x) {
  float largest = x[0];
  for (uint32_t i = 1; i < short_run; ++i)
    if (std::abs(x[i]) > std::abs(largest)) largest = x[i];
  std::array<float, short_run> q{}, unused{};
  float best = 0, least_error = infinity;
  for (int k = 0; k < first_scales; ++k) {
    const float levels = least_six - scale_step * static_cast<float>(k - first_scales / 2);
    plain_error(x, largest / levels, q.data());
    const float fit = plain_fit(x, q.data());
    const float error = plain_error(x, fit, unused.data());
    if (error < least_error) {
      least_error = error;
      best = fit;
    }
  }
  return best;
}

struct plain_block {
  float d = 0;
  std::array<float, short_runs> s{};
  std::array<float, super_block> q{};
  float error = infinity;
};

plain_block with_factor(const float* x, const std::array<float, short_runs>& wanted, float d) {
  plain_block out{.d = d, .error = 0};
  std::array<float, short_run> q{};
  for (uint32_t r = 0; r < short_runs; ++r) {
    const float s0 = d == 0 ? 0 : rounded_within(wanted[r] / d, -seven_bits - 1, seven_bits);
    float least_error = infinity;
    for (float s = std::max(s0 - 1, -seven_bits - 1); s <= std::min(s0 + 1, seven_bits); ++s) {
      const float error = plain_error(x + r * short_run, d * s, q.data());
      if (!(error < least_error)) continue;
      least_error = error;
      out.s[r] = s;
      std::copy(q.begin(), q.end(), out.q.begin() + r * short_run);
    }
    out.error += least_error;
  }
  return out;
}

float fitted_factor(const float* x, const plain_block& b) {
  double uu = 0, ux = 0;
  for (uint32_t r = 0; r < short_runs; ++r) {
    const float* run = x + r * short_run;
    const float* q = b.q.data() + r * short_run;
    const double s = b.s[r];
    uu += s * s * static_cast<double>(sum_of<short_run>([&](uint32_t i) { return q[i] * q[i]; }));
    ux += s * static_cast<double>(sum_of<short_run>([&](uint32_t i) { return q[i] * run[i]; }));
  }
  return uu > 0 ? as_half(static_cast<float>(ux / uu)) : b.d;
}

struct six_place {  ///< of element `i` of half a block, 0 to 127
  uint32_t nibble, nibble_shift, pair, pair_shift;
};
constexpr six_place six_at(uint32_t i) {
  const uint32_t run = i / 32, at = i % 32;
  return {run % 2 * 32 + at, run / 2 * 4, at, run * 2};
}
constexpr uint32_t six_low_bytes = 128, six_high_bytes = 64;

}  // namespace

bool quantise_q4_k(const float* in, std::byte* out) { return quantise_affine<false>(in, out); }
bool quantise_q5_k(const float* in, std::byte* out) { return quantise_affine<true>(in, out); }
bool dequantise_q4_k(const std::byte* in, float* out) { return dequantise_affine<false>(in, out); }
bool dequantise_q5_k(const std::byte* in, float* out) { return dequantise_affine<true>(in, out); }

bool quantise_q6_k(const float* in, std::byte* out) {
  if (!is_in_reach(in)) return false;
  std::array<float, short_runs> wanted{};
  float largest = 0;
  for (uint32_t r = 0; r < short_runs; ++r) {
    wanted[r] = best_plain(in + r * short_run);
    if (std::abs(wanted[r]) > std::abs(largest)) largest = wanted[r];
  }
  auto best = with_factor(in, wanted, as_half(largest / -(seven_bits + 1)));
  for (int n = 0; n < refits; ++n) {
    const float d = fitted_factor(in, best);
    if (std::isinf(d) || d == best.d) break;
    auto next = with_factor(in, wanted, d);
    if (!(next.error < best.error)) break;
    best = next;
  }
  std::byte* high = out + six_low_bytes;
  std::byte* scales = high + six_high_bytes;
  std::memset(out, 0, six_low_bytes + six_high_bytes);
  for (uint32_t e = 0; e < super_block; ++e) {
    const auto q = static_cast<uint32_t>(static_cast<int>(best.q[e]) - static_cast<int>(least_six));
    const uint32_t half = e / 128;
    const auto at = six_at(e % 128);
    out[half * 64 + at.nibble] |= static_cast<std::byte>((q & 15U) << at.nibble_shift);
    high[half * 32 + at.pair] |= static_cast<std::byte>((q >> 4U) << at.pair_shift);
  }
  for (uint32_t r = 0; r < short_runs; ++r)
    scales[r] = static_cast<std::byte>(static_cast<int8_t>(static_cast<int>(best.s[r])));
  return store_half(best.d, scales + short_runs);
}

bool dequantise_q6_k(const std::byte* in, float* out) {
  const std::byte* high = in + six_low_bytes;
  const std::byte* scales = high + six_high_bytes;
  const float d = load_half(scales + short_runs);
  if (!std::isfinite(d)) return false;
  for (uint32_t e = 0; e < super_block; ++e) {
    const uint32_t half = e / 128;
    const auto at = six_at(e % 128);
    const uint32_t q = (std::to_integer<uint32_t>(in[half * 64 + at.nibble]) >> at.nibble_shift & 15U) |
                       (std::to_integer<uint32_t>(high[half * 32 + at.pair]) >> at.pair_shift & 3U) << 4U;
    const float scale = d * static_cast<float>(static_cast<int8_t>(std::to_integer<uint8_t>(scales[e / short_run])));
    out[e] = scale * static_cast<float>(static_cast<int>(q) + static_cast<int>(least_six));
  }
  return true;
}

}  // namespace troupe::kernels
