// Defines the keywords and functions of the CUDA language that the kernels use, for the host's compiler; included
// before every .cu. Owns their behaviour on the host; leaves the order of threads to machine.hpp and `<<<>>>`, which is
// rewritten, to launches.cmake.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "tests/kernels/on_host/machine.hpp"

#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __shared__ static
#define __forceinline__ inline
#define __align__(bytes) alignas(bytes)
#define __launch_bounds__(...)
#define __grid_constant__

inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;
inline constexpr int warpSize = troupe::cuda_on_host::warp_lanes;

inline void __syncthreads() { troupe::cuda_on_host::sync_block(); }
inline void __syncwarp(unsigned mask = ~0U) { troupe::cuda_on_host::sync_lanes(mask, "__syncwarp", 0); }
inline void __threadfence() {}
inline void __threadfence_block() {}

namespace troupe::cuda_on_host {

template <class T>
T exchanged(unsigned mask, const char* word, T value, unsigned from) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(uint64_t));
  if (from >= warp_lanes || (mask >> from & 1U) == 0) refuse("a shuffle reads a lane that its mask does not name");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  const uint64_t* const brought = sync_lanes(mask, word, bits);
  std::memcpy(&value, brought + from, sizeof value);
  return value;
}

/// Returns the index of the first lane in the calling lane's segment of `width` lanes.
inline unsigned segment(unsigned width) { return lane() / width * width; }

}  // namespace troupe::cuda_on_host

template <class T>
T __shfl_sync(unsigned mask, T value, unsigned from, unsigned width = warpSize) {
  using namespace troupe::cuda_on_host;
  return exchanged(mask, "__shfl_sync", value, segment(width) + from % width);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, unsigned width = warpSize) {
  using namespace troupe::cuda_on_host;
  const unsigned from = lane() + by;
  return exchanged(mask, "__shfl_down_sync", value, from < segment(width) + width ? from : lane());
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, unsigned width = warpSize) {
  using namespace troupe::cuda_on_host;
  return exchanged(mask, "__shfl_up_sync", value, lane() >= segment(width) + by ? lane() - by : lane());
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, unsigned bits, unsigned width = warpSize) {
  using namespace troupe::cuda_on_host;
  const unsigned from = lane() ^ bits;
  return exchanged(mask, "__shfl_xor_sync", value, from < segment(width) + width ? from : lane());
}
inline unsigned __ballot_sync(unsigned mask, bool yes) {
  const uint64_t* const brought = troupe::cuda_on_host::sync_lanes(mask, "__ballot_sync", yes ? 1 : 0);
  unsigned out = 0;
  for (unsigned l = 0; l < unsigned{warpSize}; ++l)
    if ((mask >> l & 1U) != 0 && brought[l] != 0) out |= 1U << l;
  return out;
}
inline bool __any_sync(unsigned mask, bool yes) { return __ballot_sync(mask, yes) != 0; }
inline bool __all_sync(unsigned mask, bool yes) { return __ballot_sync(mask, yes) == mask; }

template <class T>
T __ldg(const T* from) {
  return *from;
}

/// A plain access is atomic here, because the host switches threads at barriers and shuffles only.
template <class T>
T atomicAdd(T* at, std::type_identity_t<T> value) {
  return std::exchange(*at, *at + value);
}
template <class T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  return std::exchange(*at, std::max(*at, value));
}
template <class T>
T atomicMin(T* at, std::type_identity_t<T> value) {
  return std::exchange(*at, std::min(*at, value));
}
template <class T>
T atomicExch(T* at, std::type_identity_t<T> value) {
  return std::exchange(*at, value);
}
template <class T>
T atomicOr(T* at, std::type_identity_t<T> value) {
  return std::exchange(*at, *at | value);
}

template <std::integral T>
T min(T a, T b) {
  return b < a ? b : a;
}
template <std::integral T>
T max(T a, T b) {
  return a < b ? b : a;
}
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
using std::isfinite;
using std::isinf;
using std::isnan;

inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(unsigned x) { return std::countl_zero(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(uint64_t{a} * b >> 32); }
