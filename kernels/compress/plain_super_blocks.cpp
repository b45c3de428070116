// Quantises blocks of GGUF's format q6_k: searches a scale for each run of 16 elements alone, then expresses all scales
// as int8 integers times one fp16 factor, tries the neighbours of each integer, and fits the factor again.
#include "kernels/compress/super_blocks.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/compress/small_blocks.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/compress/plain_super_blocks.cpp"
#include <hwy/foreach_target.h>

#include "kernels/compress/run_search-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
namespace {

constexpr uint32_t short_run = 16, short_runs = super_block / short_run;
constexpr float seven_bits = 127;
constexpr level_range six{-32, 31};

struct plain_block {
  float d = 0;
  std::array<float, short_runs> s{};
  std::array<float, super_block> q{};
  float error = infinity;
};

template <class By>
plain_block with_factor(const float* x, By by_column, const std::array<float, short_runs>& wanted, float d) {
  plain_block out{.d = d, .error = 0};
  std::array<float, short_run> q{};
  for (uint32_t r = 0; r < short_runs; ++r) {
    const float s0 = d == 0 ? 0 : rounded_within(wanted[r] / d, -seven_bits - 1, seven_bits);
    float least_error = infinity;
    for (float s = std::max(s0 - 1, -seven_bits - 1); s <= std::min(s0 + 1, seven_bits); ++s) {
      const float error =
          plain_error<short_run>(x + r * short_run, by_column.from(r * short_run), d * s, six, q.data());
      if (!(error < least_error)) continue;
      least_error = error;
      out.s[r] = s;
      std::copy(q.begin(), q.end(), out.q.begin() + r * short_run);
    }
    out.error += least_error;
  }
  return out;
}

template <class By>
float fitted_factor(const float* x, By by_block, const plain_block& b) {
  double uu = 0, ux = 0;
  for (uint32_t r = 0; r < short_runs; ++r) {
    const float* run = x + r * short_run;
    const float* q = b.q.data() + r * short_run;
    const auto by_column = by_block.from(r * short_run);
    const double s = b.s[r];
    uu += s * s * static_cast<double>(sum_of<short_run>([&](uint32_t i) { return by_column(i, q[i] * q[i]); }));
    ux += s * static_cast<double>(sum_of<short_run>([&](uint32_t i) { return by_column(i, q[i] * run[i]); }));
  }
  return uu > 0 ? as_half(static_cast<float>(ux / uu)) : b.d;
}

/// Returns the q6_k block (scales and codes) with the least weighted squared error of the 256 elements at `in`.
template <class By>
plain_block best_block(const float* in, By by_column) {
  std::array<float, short_runs> wanted{};
  float largest = 0;
  for (uint32_t r = 0; r < short_runs; ++r) {
    wanted[r] = best_plain<short_run>(in + r * short_run, by_column.from(r * short_run), six);
    if (std::abs(wanted[r]) > std::abs(largest)) largest = wanted[r];
  }
  auto best = with_factor(in, by_column, wanted, as_half(largest / -(seven_bits + 1)));
  for (int n = 0; n < refits; ++n) {
    const float d = fitted_factor(in, by_column, best);
    if (std::isinf(d) || d == best.d) break;
    auto next = with_factor(in, by_column, wanted, d);
    if (!(next.error < best.error)) break;
    best = next;
  }
  return best;
}

struct six_place {  ///< where the six bits of element `i` (0 to 127) of half a block are: lower four and upper two bits
  uint32_t nibble, nibble_shift, pair, pair_shift;
};
constexpr six_place six_at(uint32_t i) {
  const uint32_t run = i / 32, at = i % 32;
  return {run % 2 * 32 + at, run / 2 * 4, at, run * 2};
}
constexpr uint32_t six_low_bytes = 128, six_high_bytes = 64;

}  // namespace

bool quantise_q6_k_here(const float* in, const float* weights, std::byte* out) {
  if (!is_in_reach(in)) return false;
  const auto best = weights == nullptr ? best_block(in, all_alike{}) : best_block(in, weighted{weights});
  std::byte* high = out + six_low_bytes;
  std::byte* scales = high + six_high_bytes;
  std::memset(out, 0, six_low_bytes + six_high_bytes);
  for (uint32_t e = 0; e < super_block; ++e) {
    const auto q = static_cast<uint32_t>(static_cast<int>(best.q[e]) - static_cast<int>(six.least));
    const uint32_t half = e / 128;
    const auto at = six_at(e % 128);
    out[half * 64 + at.nibble] |= static_cast<std::byte>((q & 15U) << at.nibble_shift);
    high[half * 32 + at.pair] |= static_cast<std::byte>((q >> 4U) << at.pair_shift);
  }
  for (uint32_t r = 0; r < short_runs; ++r)
    scales[r] = static_cast<std::byte>(static_cast<int8_t>(static_cast<int>(best.s[r])));
  return store_half(best.d, scales + short_runs);
}

bool dequantise_q6_k_here(const std::byte* in, float* out) {
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
    out[e] = scale * static_cast<float>(static_cast<int>(q) + static_cast<int>(six.least));
  }
  return true;
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(quantise_q6_k_here);
HWY_EXPORT(dequantise_q6_k_here);

bool quantise_q6_k(const float* in, const float* weights, std::byte* out) {
  return HWY_DYNAMIC_DISPATCH(quantise_q6_k_here)(in, weights, out);
}
bool quantise_q6_k_reference(const float* in, const float* weights, std::byte* out) {
  return HWY_STATIC_DISPATCH(quantise_q6_k_here)(in, weights, out);
}
bool dequantise_q6_k(const std::byte* in, float* out) { return HWY_DYNAMIC_DISPATCH(dequantise_q6_k_here)(in, out); }
bool dequantise_q6_k_reference(const std::byte* in, float* out) {
  return HWY_STATIC_DISPATCH(dequantise_q6_k_here)(in, out);
}

}  // namespace troupe::kernels
#endif
