#include "kernels/base/random.hpp"
#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/packs.cuh"
#include "kernels/layers/activation_element.hpp"

namespace troupe::kernels::cuda {
namespace {

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

mask_stream stream_of(const dropout_key& k) {
  return mask_stream_of(k.probability, k.seed, k.step, k.sample, k.layer, k.site);
}

template <int N, class T>
__global__ void drop_kernel(T* x, uint64_t count, mask_stream stream, uint64_t first, float factor) {
  for_each_words<N>(stream.key, stream.high, first, count, [&]<int n>(width<n>, uint64_t i, const uint32_t* words) {
    auto values = load_pack<n>(x + i);
#pragma unroll
    for (int k = 0; k < n; ++k)
      values.of[k] = narrow<T>(kept_element(widen(values.of[k]), words[k] >= stream.threshold, factor));
    store_pack(values, x + i);
  });
}

template <int N>
__global__ void draw_kernel(uint8_t* keep, uint64_t count, mask_stream stream, uint64_t first) {
  for_each_words<N>(stream.key, stream.high, first, count, [&]<int n>(width<n>, uint64_t i, const uint32_t* words) {
    pack<uint8_t, n> out;
#pragma unroll
    for (int k = 0; k < n; ++k) out.of[k] = words[k] >= stream.threshold ? 1 : 0;
    store_pack(out, keep + i);
  });
}

template <int N, class T>
__global__ void scale_kernel(T* x, const uint8_t* keep, float factor, uint64_t count) {
  for_each_pack<N>(count, [&]<int n>(width<n>, uint64_t i) {
    auto values = load_pack<n>(x + i);
    const auto kept = load_pack<n>(keep + i);
#pragma unroll
    for (int k = 0; k < n; ++k) values.of[k] = narrow<T>(kept_element(widen(values.of[k]), kept.of[k] != 0, factor));
    store_pack(values, x + i);
  });
}

}  // namespace

core::result<void> drop(std::byte* x, core::dtype type, uint64_t count, const dropout_key& key, uint64_t first_position,
                        stream on) {
  if (count == 0) return {};
  with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    auto* values = reinterpret_cast<T*>(x);
    with_words<access_bytes / sizeof(T)>(values, first_position, count, [&]<int N>(width<N>, unsigned blocks) {
      drop_kernel<N><<<blocks, threads_per_block, 0, on>>>(values, count, stream_of(key), first_position,
                                                           static_cast<float>(key.factor()));
    });
  });
  return launched("drop");
}

core::result<void> draw(uint8_t* keep, uint64_t count, const dropout_key& key, uint64_t first_position, stream on) {
  if (count == 0) return {};
  with_words<8>(keep, first_position, count, [&]<int N>(width<N>, unsigned blocks) {
    draw_kernel<N><<<blocks, threads_per_block, 0, on>>>(keep, count, stream_of(key), first_position);
  });
  return launched("draw");
}

core::result<void> scale_kept(std::byte* x, core::dtype type, const uint8_t* keep, double factor, uint64_t count,
                              stream on) {
  if (count == 0) return {};
  with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    auto* values = reinterpret_cast<T*>(x);
    constexpr int n = access_bytes / sizeof(T);
    with_width<n>(allow_packs<n>(values, keep), count, [&]<int N>(width<N>, unsigned blocks) {
      scale_kernel<N><<<blocks, threads_per_block, 0, on>>>(values, keep, static_cast<float>(factor), count);
    });
  });
  return launched("scale_kept");
}

}  // namespace troupe::kernels::cuda
