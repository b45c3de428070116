// Neighbouring elements that a thread loads and stores at once: a device's memory is only kept busy by accesses of many
// bytes. Owns which arrays allow it; what is done with the elements is the kernels', one at a time and in any order.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/base/half.hpp"
#include "kernels/cuda/launch.cuh"

namespace troupe::kernels::cuda {

/// The most bytes of one access.
inline constexpr uint64_t access_bytes = 16;

template <class T, int N>
constexpr uint64_t pack_alignment() {
  return N * sizeof(T) < access_bytes ? N * sizeof(T) : access_bytes;
}

template <class T, int N>
struct alignas(pack_alignment<T, N>()) pack {
  T of[N];
};

template <int N, class T>
__device__ pack<T, N> load_pack(const T* from) {
  return *reinterpret_cast<const pack<T, N>*>(from);
}
template <int N, class T>
__device__ void store_pack(const pack<T, N>& values, T* to) {
  *reinterpret_cast<pack<T, N>*>(to) = values;
}

/// Each rounded to the type `To`.
template <class To, int N>
__device__ pack<To, N> narrowed(const pack<float, N>& values) {
  pack<To, N> out;
#pragma unroll
  for (int k = 0; k < N; ++k) out.of[k] = narrow<To>(values.of[k]);
  return out;
}

template <int N>
using width = std::integral_constant<int, N>;

/// Calls `f(width<N>{}, i)` for the packs of N elements that begin at i, shared out among `threads` threads of which
/// the caller is number `thread`, and `f(width<1>{}, i)` for what is left of the `count` elements.
template <int N, class F>
__device__ void for_each_pack(uint64_t thread, uint64_t threads, uint64_t count, F&& f) {
  for (uint64_t p = thread; p < count / N; p += threads) f(width<N>{}, p * N);
  if constexpr (N > 1) {
    const uint64_t rest = count / N * N + thread;
    if (rest < count) f(width<1>{}, rest);
  }
}

/// Shared out among all threads of the grid.
template <int N, class F>
__device__ void for_each_pack(uint64_t count, F&& f) {
  for_each_pack<N>(first_index(), stride(), count, f);
}

/// Shared out among the threads of a block.
template <int N, class F>
__device__ void for_each_pack_of_block(uint64_t count, F&& f) {
  for_each_pack<N>(threadIdx.x, blockDim.x, count, f);
}

/// Whether arrays that begin at these addresses, of which some may be null, are loaded and stored by packs of N.
template <int N, class... T>
bool allow_packs(const T*... arrays) {
  return ((reinterpret_cast<uintptr_t>(arrays) % pack_alignment<T, N>() == 0) && ...);
}

/// Calls `f(width<N>{}, blocks)` where packs are allowed, else `f(width<1>{}, blocks)`.
template <int N, class F>
void with_width(bool packs, uint64_t count, F&& f) {
  packs ? f(width<N>{}, blocks_for(core::div_up(count, N))) : f(width<1>{}, blocks_for(count));
}

}  // namespace troupe::kernels::cuda
