#include <cassert>

#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/packs.cuh"
#include "kernels/sums/norm.hpp"

namespace troupe::kernels::cuda {
namespace {

constexpr unsigned lanes = norm_lanes;

/// Sixteen threads to a block of 1,024 elements, one to a lane; neighbours read neighbours.
template <class T>
__global__ void square_sums_kernel(const T* values, uint64_t count, double* out, uint64_t blocks) {
  const unsigned lane = threadIdx.x % lanes;
  // The bound is rounded up to whole warps: both halves of a warp take part in every shuffle.
  for (uint64_t b = first_index() / lanes; b / 2 < (blocks + 1) / 2; b += stride() / lanes) {
    const uint64_t first = b * core::partition_grain;
    double sum = 0;
    const auto add = [&](T value) {
      const double x = widen(value);
      sum += x * x;
    };
    if (first + core::partition_grain <= count) {
      const T* const mine = values + first + lane;
#pragma unroll 16  // so many loads are under way at once
      for (uint64_t k = 0; k < core::partition_grain / lanes; ++k) add(mine[k * lanes]);
    } else {
      for (uint64_t i = first + lane; i < count; i += lanes) add(values[i]);
    }
    for (unsigned half = lanes / 2; half > 0; half /= 2) sum += __shfl_down_sync(0xFFFFFFFFU, sum, half, lanes);
    if (lane == 0 && b < blocks) out[b] = sum;
  }
}

template <int N, class T>
__global__ void nonfinite_kernel(const T* values, uint64_t count, uint32_t* found) {
  bool bad = false;
  for_each_pack<N>(count, [&]<int n>(width<n>, uint64_t i) {
    const auto x = load_pack<n>(values + i);
#pragma unroll
    for (int k = 0; k < n; ++k) bad |= !isfinite(widen(x.of[k]));
  });
  if (bad) *found = 1;  // whoever writes, writes the same
}

}  // namespace

core::result<void> block_square_sums(const std::byte* values, core::dtype type, uint64_t count, std::span<double> out,
                                     stream on) {
  assert(out.size() == core::div_up(count, core::partition_grain));
  if (count == 0) return {};
  with_float_dtype(type, [&]<class T>(std::type_identity<T>) {
    square_sums_kernel<<<blocks_for(out.size() * lanes), threads_per_block, 0, on>>>(reinterpret_cast<const T*>(values),
                                                                                     count, out.data(), out.size());
  });
  return launched("block_square_sums");
}

core::result<void> has_nonfinite(const std::byte* values, core::dtype type, uint64_t count, uint32_t* found,
                                 stream on) {
  if (count == 0) return {};
  with_float_dtype(type, [&]<class T>(std::type_identity<T>) {
    const auto* x = reinterpret_cast<const T*>(values);
    with_width<8>(allow_packs<8>(x), count, [&]<int N>(width<N>, unsigned blocks) {
      nonfinite_kernel<N><<<blocks, threads_per_block, 0, on>>>(x, count, found);
    });
  });
  return launched("has_nonfinite");
}

}  // namespace troupe::kernels::cuda
