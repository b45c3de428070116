// Rows of a matrix, each distributed over the threads of a block. Owns which thread has which columns, and the order of
// a sum over a row. The order depends on the row's width and type alone, not on the grid, on other rows or on the row's
// address.
//
// A row is split into packs of 16 bytes, and thread t has packs t, t + threads, and so on. The terms of a pack are
// added pairwise, the packs of a thread in order, the threads of a warp pairwise, and the warps in order.
#pragma once

#include "kernels/cuda/packs.cuh"

namespace troupe::kernels::cuda {

/// Number of elements of type T in one access of 16 bytes.
template <class T>
inline constexpr int access_elements = static_cast<int>(access_bytes / sizeof(T));
template <class T>
using row_pack = pack<T, access_elements<T>>;

/// Largest number of threads that process one row together.
inline constexpr unsigned most_row_threads = 512;

/// Returns the number of threads, a multiple of a warp, that process a row of `width` elements together if each thread
/// has at most `packs` accesses of 16 bytes. Callers limit the result to the largest number that their kernel supports.
template <class T>
unsigned row_threads(uint64_t width, int packs) {
  const uint64_t wanted = core::div_up(width, static_cast<uint64_t>(packs) * access_elements<T>);
  return static_cast<unsigned>(core::div_up(wanted, warp_threads) * warp_threads);
}

/// as_float and as_stored convert an element to fp32 and back, like widen() and narrow(), but with the device's
/// instructions, which round in the same way; only the payload of a NaN may differ.
template <class T>
__device__ float as_float(T x) {
  return widen(x);
}
template <class T>
__device__ T as_stored(float x) {
  return narrow<T>(x);
}
template <>
__device__ inline float as_float(f16 x) {
#ifdef __CUDA_ARCH__
  float out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(x.bits));
  return out;
#else
  return widen(x);
#endif
}
template <>
__device__ inline f16 as_stored(float x) {
#ifdef __CUDA_ARCH__
  f16 out;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(x));
  return out;
#else
  return narrow<f16>(x);
#endif
}
template <>
__device__ inline bf16 as_stored(float x) {
#ifdef __CUDA_ARCH__
  bf16 out;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(x));
  return out;
#else
  return narrow<bf16>(x);
#endif
}

/// Returns the first column of the calling thread's pack number `c`.
template <class T>
__device__ unsigned first_column(int c) {
  return (threadIdx.x + static_cast<unsigned>(c) * blockDim.x) * static_cast<unsigned>(access_elements<T>);
}

/// Loads 16 bytes of a row from column `first` on; columns beyond the row's end are 0. `by_packs`: true if rows are
/// aligned to 16 bytes and a multiple of 16 bytes long.
template <bool by_packs, class T>
__device__ row_pack<T> load_columns(const T* row, unsigned first, unsigned width) {
  row_pack<T> out{};
  if constexpr (by_packs) {
    if (first < width) out = load_pack<access_elements<T>>(row + first);
  } else {
#pragma unroll
    for (int k = 0; k < access_elements<T>; ++k)
      if (first + k < width) out.of[k] = row[first + k];
  }
  return out;
}
template <bool by_packs, class T>
__device__ void store_columns(const row_pack<T>& values, T* row, unsigned first, unsigned width) {
  if constexpr (by_packs) {
    if (first < width) store_pack(values, row + first);
  } else {
#pragma unroll
    for (int k = 0; k < access_elements<T>; ++k)
      if (first + k < width) row[first + k] = values.of[k];
  }
}

/// Returns the sum of the terms, added pairwise (term k + N/2 to term k, and so on); overwrites them.
template <class Wide, int N>
__device__ Wide sum_of_pack(Wide (&terms)[N]) {
#pragma unroll
  for (int half = N / 2; half > 0; half /= 2)
#pragma unroll
    for (int k = 0; k < half; ++k) terms[k] += terms[k + half];
  return terms[0];
}

/// Shared memory for N numbers of each warp of a block. A kernel has two of these and alternates between them, so that
/// one barrier for each reduction is enough.
template <class Wide, int N>
using warp_numbers = Wide[N][most_row_threads / warp_threads];

/// Reduces each of the N values of `mine` over all threads of the block with `joined(a, b)`, in a fixed order; every
/// thread gets the results.
template <class Wide, int N, class Join>
__device__ void join_row(Wide (&mine)[N], warp_numbers<Wide, N>& of_warps, Join joined) {
#pragma unroll
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (unsigned half = warp_threads / 2; half > 0; half /= 2)
      mine[n] = joined(mine[n], __shfl_xor_sync(all_lanes, mine[n], half));
  const unsigned warps = blockDim.x / warp_threads;
  if (warps == 1) return;
  if (threadIdx.x % warp_threads == 0)
#pragma unroll
    for (int n = 0; n < N; ++n) of_warps[n][threadIdx.x / warp_threads] = mine[n];
  __syncthreads();
#pragma unroll
  for (int n = 0; n < N; ++n) mine[n] = of_warps[n][0];
  for (unsigned w = 1; w < warps; ++w)
#pragma unroll
    for (int n = 0; n < N; ++n) mine[n] = joined(mine[n], of_warps[n][w]);
}

/// Adds each of the N values of `mine` over all threads of the block, in a fixed order; every thread gets the sums.
template <class Wide, int N>
__device__ void sum_row(Wide (&mine)[N], warp_numbers<Wide, N>& of_warps) {
  join_row<Wide, N>(mine, of_warps, [](Wide a, Wide b) { return a + b; });
}

}  // namespace troupe::kernels::cuda
