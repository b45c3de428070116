// Computes a chunk of 64 random numbers from 16 counters, in vectors. Included once per SIMD target: everything after
// the random words is plain loops that the compiler turns into the target's vectors; no operation is contracted or
// reordered, so the bits are those of the source.
#if defined(TROUPE_KERNELS_RANDOM_CHUNK_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_RANDOM_CHUNK_INL_HPP
#undef TROUPE_KERNELS_RANDOM_CHUNK_INL_HPP
#else
#define TROUPE_KERNELS_RANDOM_CHUNK_INL_HPP
#endif

#include <hwy/highway.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/base/random.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr uint64_t lanes = random_chunk_counters;

/// Position of a chunk in a stream of random numbers: the key, the upper half of the counter, and the chunk's first
/// counter.
struct chunk_position {
  uint64_t key, high, first_counter;
};

using counters = hn::CappedTag<uint64_t, lanes>;

/// Returns the lower 32 bits of each lane times a 32-bit factor, as 64 bits.
HWY_INLINE hn::Vec<counters> product(hn::Vec<counters> x, uint32_t factor) {
#if HWY_TARGET == HWY_SCALAR
  return hn::Set(counters(), (hn::GetLane(x) & 0xFFFFFFFFU) * factor);
#else
  const hn::Repartition<uint32_t, counters> halves;
  return hn::MulEven(hn::BitCast(halves, x), hn::Set(halves, factor));
#endif
}

/// Sets words[w][l] to random word w (of four) of counter first_counter + l, stored in the lower half of a 64-bit
/// integer.
HWY_INLINE void random_words(const chunk_position& at, uint64_t words[4][lanes]) {
  const counters d;
  const auto low = hn::Set(d, 0xFFFFFFFFU);
  for (uint64_t l = 0; l < lanes; l += hn::Lanes(d)) {
    auto word0 = hn::Add(hn::Set(d, at.first_counter), hn::Iota(d, l));  // bits above 31 of a word are arbitrary
    auto word1 = hn::ShiftRight<32>(word0);
    auto word2 = hn::Set(d, at.high);
    auto word3 = hn::ShiftRight<32>(word2);
    auto key0 = static_cast<uint32_t>(at.key);
    auto key1 = static_cast<uint32_t>(at.key >> 32);
    for (int round = 0; round < 10; ++round) {
      const auto a = product(word0, 0xD2511F53U);
      const auto b = product(word2, 0xCD9E8D57U);
      word0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(b), word1), hn::Set(d, key0));
      word1 = b;
      word2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(a), word3), hn::Set(d, key1));
      word3 = a;
      key0 += 0x9E3779B9U;
      key1 += 0xBB67AE85U;
    }
    hn::StoreU(hn::And(word0, low), d, words[0] + l);
    hn::StoreU(hn::And(word1, low), d, words[1] + l);
    hn::StoreU(hn::And(word2, low), d, words[2] + l);
    hn::StoreU(hn::And(word3, low), d, words[3] + l);
  }
}

/// Returns ln x for x >= 2^-33, to about 1e-16: x = m * 2^e with m near 1, then 2 artanh((m - 1) / (m + 1)) as a
/// series.
HWY_INLINE double natural_log(double x) {
  // Adding the distance from sqrt(1/2) to 1 carries into the exponent if m would exceed sqrt(2).
  constexpr uint64_t one = 0x3FF0000000000000U;
  constexpr uint64_t sqrt_half = 0x3FE6A09E667F3BCDU;
  const uint64_t shifted = std::bit_cast<uint64_t>(x) + (one - sqrt_half);
  const uint64_t m_bits = (shifted & 0x000FFFFFFFFFFFFFU) + sqrt_half;
  // Computes the exponent as the fraction of 2^52 + e, because few targets convert 64-bit integers.
  const double e = std::bit_cast<double>((shifted >> 52) | 0x4330000000000000U) - (0x1p52 + 1023);
  const double m = std::bit_cast<double>(m_bits);
  const double s = (m - 1) / (m + 1);
  const double z = s * s;
  double series = 1.0 / 21;
  series = series * z + 1.0 / 19;
  series = series * z + 1.0 / 17;
  series = series * z + 1.0 / 15;
  series = series * z + 1.0 / 13;
  series = series * z + 1.0 / 11;
  series = series * z + 1.0 / 9;
  series = series * z + 1.0 / 7;
  series = series * z + 1.0 / 5;
  series = series * z + 1.0 / 3;
  series = series * z + 1.0;
  return e * 0.693147180559945309417 + 2 * s * series;
}

/// Returns a 32-bit unsigned integer as a double: sets the fraction bits of 2^52 to it and subtracts 2^52.
HWY_INLINE double as_double(uint64_t word) { return std::bit_cast<double>(word | 0x4330000000000000U) - 0x1p52; }

/// Computes two independent standard normal numbers from two random words.
HWY_INLINE void normal_pair(uint64_t radius_word, uint64_t angle_word, double& first, double& second) {
  // The middle of the word's interval is used, so the argument is never 0 and never 1.
  const double radius = std::sqrt(-2 * natural_log((as_double(radius_word) + 0.5) * 0x1p-32));
  // Splits the angle into the nearest quarter of a turn and a remainder between minus and plus an eighth of a turn.
  const uint64_t quarter = (angle_word + 0x20000000U) >> 30;
  const double rest = as_double(angle_word) + 0.5 - as_double(quarter) * 0x1p30;
  const double t = rest * (6.283185307179586476925 * 0x1p-32);
  const double z = t * t;
  double s = -1.0 / 1307674368000.0;  // 1 / 15!: coefficients of the Taylor series of sin t
  s = s * z + 1.0 / 6227020800.0;
  s = s * z - 1.0 / 39916800.0;
  s = s * z + 1.0 / 362880.0;
  s = s * z - 1.0 / 5040.0;
  s = s * z + 1.0 / 120.0;
  s = s * z - 1.0 / 6.0;
  s = t * (s * z + 1.0);
  double c = 1.0 / 20922789888000.0;  // 1 / 16!: coefficients of the Taylor series of cos t
  c = c * z - 1.0 / 87178291200.0;
  c = c * z + 1.0 / 479001600.0;
  c = c * z - 1.0 / 3628800.0;
  c = c * z + 1.0 / 40320.0;
  c = c * z - 1.0 / 720.0;
  c = c * z + 1.0 / 24.0;
  c = c * z - 0.5;
  c = c * z + 1.0;
  // (cos, sin) rotated by 0 to 3 quarters of a turn: (c, s), (-s, c), (-c, -s), (s, -c).
  const bool swapped = (quarter & 1) != 0;
  const double x = swapped ? s : c;
  const double y = swapped ? c : s;
  first = radius * (((quarter + 1) & 2) != 0 ? -x : x);
  second = radius * ((quarter & 2) != 0 ? -y : y);
}

HWY_INLINE void normal_chunk(const chunk_position& at, float mean, float std, float* out) {
  uint64_t words[4][lanes];
  random_words(at, words);
  for (uint64_t pair = 0; pair < 4; pair += 2) {
    for (uint64_t l = 0; l < lanes; ++l) {
      double first = 0;
      double second = 0;
      normal_pair(words[pair][l], words[pair + 1][l], first, second);
      out[pair * lanes + l] = static_cast<float>(static_cast<double>(mean) + static_cast<double>(std) * first);
      out[pair * lanes + lanes + l] = static_cast<float>(static_cast<double>(mean) + static_cast<double>(std) * second);
    }
  }
}

HWY_INLINE void mask_chunk(const chunk_position& at, uint64_t threshold, uint8_t* out) {
  uint64_t words[4][lanes];
  random_words(at, words);
  for (uint64_t w = 0; w < 4; ++w) {
    for (uint64_t l = 0; l < lanes; ++l) out[w * lanes + l] = words[w][l] >= threshold ? 1 : 0;
  }
}

/// Computes a chunk of rounding noise: the upper 24 bits of each random word as a fraction, minus one half.
HWY_INLINE void noise_chunk(const chunk_position& at, float* out) {
  uint64_t words[4][lanes];
  random_words(at, words);
  for (uint64_t w = 0; w < 4; ++w) {
    for (uint64_t l = 0; l < lanes; ++l)
      out[w * lanes + l] = static_cast<float>(static_cast<int32_t>(words[w][l] >> 8)) * 0x1p-24F - 0.5F;
  }
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
