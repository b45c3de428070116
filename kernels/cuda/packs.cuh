// Packs: neighbouring elements that a thread loads and stores in one access; only accesses of many bytes keep a
// device's memory busy. Owns which arrays allow packs; leaves the operation on elements, one at a time and in any
// order, to the kernels.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/base/half.hpp"
#include "kernels/cuda/launch.cuh"

namespace troupe::kernels::cuda {

/// Largest number of bytes that a thread loads or stores in one instruction.
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

/// Returns a pack with each value rounded to the type `To`.
template <class To, int N>
__device__ pack<To, N> narrowed(const pack<float, N>& values) {
  pack<To, N> out;
#pragma unroll
  for (int k = 0; k < N; ++k) out.of[k] = narrow<To>(values.of[k]);
  return out;
}

template <int N>
using width = std::integral_constant<int, N>;

/// Distributes `count` elements over `threads` threads, of which the caller is number `thread`: calls `f(width<N>{},
/// i)` for each of its packs of N elements from element i on, and `f(width<1>{}, i)` for its part of the elements after
/// the last whole pack.
template <int N, class F>
__device__ void for_each_pack(uint64_t thread, uint64_t threads, uint64_t count, F&& f) {
  for (uint64_t p = thread; p < count / N; p += threads) f(width<N>{}, p * N);
  if constexpr (N > 1) {
    const uint64_t rest = count / N * N + thread;
    if (rest < count) f(width<1>{}, rest);
  }
}

/// Distributes `count` elements in packs of N over all threads of the grid, and calls `f(width, i)` for each pack of
/// the calling thread.
template <int N, class F>
__device__ void for_each_pack(uint64_t count, F&& f) {
  for_each_pack<N>(first_index(), stride(), count, f);
}

/// Distributes `count` elements in packs of N over the threads of a block, and calls `f(width, i)` for each pack of
/// the calling thread.
template <int N, class F>
__device__ void for_each_pack_of_block(uint64_t count, F&& f) {
  for_each_pack<N>(threadIdx.x, blockDim.x, count, f);
}

/// True if arrays that begin at these addresses may be loaded and stored in packs of N elements: all addresses are
/// multiples of a pack's alignment. Null is allowed.
template <int N, class... T>
bool allow_packs(const T*... arrays) {
  return ((reinterpret_cast<uintptr_t>(arrays) % pack_alignment<T, N>() == 0) && ...);
}

/// Calls `f(width<N>{}, blocks)` if `packs` (see allow_packs), else `f(width<1>{}, blocks)`; `blocks` is the size of a
/// grid that processes `count` elements, that many per thread at a time.
template <int N, class F>
void with_width(bool packs, uint64_t count, F&& f) {
  packs ? f(width<N>{}, blocks_for(core::div_up(count, N))) : f(width<1>{}, blocks_for(count));
}

}  // namespace troupe::kernels::cuda
