// Random numbers that are functions of their position: any rank computes element i of a stream alone, with the same
// bits. Owns the generator and its uses: initial weights, dropout and stochastic rounding. Keeps no state.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/math.hpp"

namespace troupe::kernels {

using uint32x4 = std::array<uint32_t, 4>;
using uint32x2 = std::array<uint32_t, 2>;

/// Returns 128 mixed bits of a counter and a key, by Philox4x32-10. Source: Salmon, Moraes, Dror, Shaw 2011, "Parallel
/// random numbers: as easy as 1, 2, 3".
constexpr uint32x4 philox(uint32x4 counter, uint32x2 key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

/// Number of elements of a chunk of a random stream, and number of its counters: element e of chunk c is word e / 16
/// (of four) of the generator's output for the counter 16 c + e mod 16. Sixteen neighbouring elements therefore come
/// from one vector operation.
inline constexpr uint64_t random_chunk = 64;
inline constexpr uint64_t random_chunk_counters = 16;

/// Sets out[i] = mean + std * (element first_index + i of the standard normal stream (seed, stream)). Computed by Box
/// and Muller's method in fp64 with Troupe's own elementary functions, rounded once to fp32: the same bits on every
/// processor and C library.
void fill_normal(std::span<float> out, uint64_t seed, uint64_t stream, uint64_t first_index, float mean, float std);

/// Key, upper counter half and threshold of the random words of one dropout of one layer and sample (see
/// dropout_mask()). The element at a position is kept if the position's random word is at least `threshold`.
struct mask_stream {
  uint64_t key = 0, high = 0, threshold = 0;
};
/// Returns the stream of random words of one dropout. The arguments have the same meaning as in dropout_mask().
constexpr mask_stream mask_stream_of(float p, uint64_t seed, uint64_t step, uint64_t sample, uint32_t layer,
                                     uint32_t site) {
  return {core::mix64(seed ^ core::mix64(step)), core::mix64(sample ^ core::mix64((uint64_t{layer} << 32) | site)),
          static_cast<uint64_t>(static_cast<double>(p) * 0x1p32)};
}

/// Sets keep[i] = 1 with probability 1 - p, otherwise 0, for position first_position + i of one dropout site of one
/// sample. `p` is in [0, 1], counted in units of 2^-32. `site` distinguishes the dropouts of one layer.
void dropout_mask(std::span<uint8_t> keep, float p, uint64_t seed, uint64_t step, uint64_t sample, uint32_t layer,
                  uint32_t site, uint64_t first_position);

/// Number of the stream for rounding noise; keeps this noise independent of a step's dropouts.
inline constexpr uint64_t rounding_stream = 0x726F756E64696E67ULL;

/// Selects the random noise with which a parameter is rounded in one step.
struct rounding_key {
  uint64_t seed = 0, step = 0, parameter = 0;
};

/// Sets out[i] to the rounding noise of element first_element + i of the parameter that `key` names: uniform in [-0.5,
/// 0.5), a multiple of 2^-24.
void rounding_noise(std::span<float> out, const rounding_key& key, uint64_t first_element);

}  // namespace troupe::kernels
