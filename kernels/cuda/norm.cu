#include <cassert>

#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch.cuh"
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
    const uint64_t end = first + core::partition_grain < count ? first + core::partition_grain : count;
    double sum = 0;
    for (uint64_t i = first + lane; i < end; i += lanes) {
      const double x = widen(values[i]);
      sum += x * x;
    }
    for (unsigned half = lanes / 2; half > 0; half /= 2) sum += __shfl_down_sync(0xFFFFFFFFU, sum, half, lanes);
    if (lane == 0 && b < blocks) out[b] = sum;
  }
}

template <class T>
__global__ void nonfinite_kernel(const T* values, uint64_t count, uint32_t* found) {
  bool bad = false;
  for (uint64_t i = first_index(); i < count; i += stride()) bad = bad || !isfinite(widen(values[i]));
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
    nonfinite_kernel<<<blocks_for(count), threads_per_block, 0, on>>>(reinterpret_cast<const T*>(values), count, found);
  });
  return launched("has_nonfinite");
}

}  // namespace troupe::kernels::cuda
