// Distributes a stream of random words (kernels/base/random.hpp) over threads. A thread computes the words of
// neighbouring counters, so that no word is computed twice and neighbouring elements are loaded and stored as packs.
#pragma once

#include "kernels/base/random.hpp"
#include "kernels/cuda/packs.cuh"

namespace troupe::kernels::cuda {

/// Computes the random words of the `count` elements whose positions in the stream start at `first`, and calls
/// `f(width<N>{}, i, words)` for N neighbouring elements from element i on, or `f(width<1>{}, i, word)` for single
/// elements at either end. A thread computes N neighbouring counters of a chunk of the stream; each counter gives four
/// words, which belong to four different packs of N elements.
template <int N, class F>
__device__ void for_each_words(uint64_t key, uint64_t high, uint64_t first, uint64_t count, F&& f) {
  constexpr uint64_t words_of_counter = random_chunk / random_chunk_counters, parts = random_chunk_counters / N;
  const uint64_t end = first + count, first_part = first / random_chunk * parts;
  for (uint64_t part = first_part + first_index(); part / parts * random_chunk < end; part += stride()) {
    uint32_t words[words_of_counter][N];
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const uint64_t counter = part * N + k;
      const uint32x4 made = philox({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                                    static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)},
                                   {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
#pragma unroll
      for (uint64_t w = 0; w < words_of_counter; ++w) words[w][k] = made[w];
    }
#pragma unroll
    for (uint64_t w = 0; w < words_of_counter; ++w) {
      const uint64_t at = part / parts * random_chunk + w * random_chunk_counters + part % parts * N;
      if (at >= first && at + N <= end) {
        f(width<N>{}, at - first, words[w]);
      } else {
#pragma unroll
        for (int k = 0; k < N; ++k)
          if (at + k >= first && at + k < end) f(width<1>{}, at + k - first, words[w] + k);
      }
    }
  }
}

/// Calls `f(width<N>{}, blocks)` if packs of N elements that begin at stream positions divisible by N are aligned in
/// memory, else `f(width<1>{}, blocks)`; `blocks` is the size of a grid for for_each_words().
template <int N, class T, class F>
void with_words(const T* elements, uint64_t first, uint64_t count, F&& f) {
  constexpr uint64_t words_of_counter = random_chunk / random_chunk_counters;
  const bool packs = allow_packs<N>(elements + (N - first % N) % N);
  // Counts two more chunks, because the chunk at either end is computed even if only one of its elements is used.
  const uint64_t most = count + 2 * random_chunk;
  packs ? f(width<N>{}, blocks_for(core::div_up(most, words_of_counter * N)))
        : f(width<1>{}, blocks_for(core::div_up(most, words_of_counter)));
}

}  // namespace troupe::kernels::cuda
