#include <cassert>

#include "core/math.hpp"
#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch.cuh"

namespace troupe::kernels::cuda {
namespace {

constexpr unsigned sum_lanes = 16;

/// Noise of elements, as rounding_noise() forms it.
struct element_noise {
  uint64_t key = 0, high = 0, first = 0;
  bool drawn = false;

  __device__ float of(uint64_t element) const {
    if (!drawn) return 0;
    const uint64_t e = first + element, i = e % random_chunk;
    const uint64_t counter = e / random_chunk * random_chunk_counters + i % random_chunk_counters;
    const uint32x4 words = philox({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32),
                                   static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)},
                                  {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)});
    return static_cast<float>(words[i / random_chunk_counters] >> 8) * 0x1p-24F - 0.5F;
  }
};

element_noise noise_of(const stochastic_rounding* rounding) {
  if (rounding == nullptr) return {};
  const auto& k = rounding->key;
  return {core::mix64(k.seed ^ core::mix64(k.step)), core::mix64(k.parameter ^ core::mix64(rounding_stream)),
          rounding->first_element, true};
}

/// Integers in the order of the floats that have these bits; NaN at either end.
__device__ int32_t ordered(float x) {
  const int32_t bits = __float_as_int(x);
  return bits ^ ((bits >> 31) & 0x7FFFFFFF);
}
__device__ float unordered(int32_t x) { return __int_as_float(x ^ ((x >> 31) & 0x7FFFFFFF)); }

/// The group's range, known to every thread of the block.
template <class T>
__device__ value_range<float> range_in(const T* x, uint64_t count) {
  __shared__ int32_t least, largest;
  if (threadIdx.x == 0) {
    least = INT32_MAX;
    largest = INT32_MIN;
  }
  __syncthreads();
  int32_t low = INT32_MAX, high = INT32_MIN;
  for (uint64_t i = threadIdx.x; i < count; i += blockDim.x) {
    const int32_t key = ordered(widen(x[i]));
    low = key < low ? key : low;
    high = key > high ? key : high;
  }
  atomicMin(&least, low);
  atomicMax(&largest, high);
  __syncthreads();
  value_range<float> out{unordered(least), unordered(largest)};
  if (isnan(out.least) || isnan(out.largest)) out.least = out.largest = __int_as_float(0x7FC00000);
  __syncthreads();  // nobody begins the next group's before all have read this one's
  return out;
}

struct magnitudes {
  double sum = 0, count = 0;
};

/// Of |x| that are not at most the threshold: element i in lane i mod 16, lanes added in halves. The same in all
/// threads.
template <class T>
__device__ magnitudes sum_above(const T* x, uint64_t count, float threshold) {
  __shared__ double sums[sum_lanes], counts[sum_lanes];
  if (threadIdx.x < sum_lanes) {
    double sum = 0, above = 0;
    for (uint64_t i = threadIdx.x; i < count; i += sum_lanes) {
      const float size = fabsf(widen(x[i]));
      if (size <= threshold) continue;
      sum += size;
      above += 1;
    }
    sums[threadIdx.x] = sum;
    counts[threadIdx.x] = above;
  }
  __syncthreads();
  double sum[sum_lanes], above[sum_lanes];
  for (unsigned l = 0; l < sum_lanes; ++l) {
    sum[l] = sums[l];
    above[l] = counts[l];
  }
  for (unsigned half = sum_lanes / 2; half > 0; half /= 2)
    for (unsigned l = 0; l < half; ++l) {
      sum[l] += sum[l + half];
      above[l] += above[l + half];
    }
  __syncthreads();
  return {sum[0], above[0]};
}

/// False: the group keeps its values.
template <class T>
__device__ bool signs_of(quantiser_kind kind, const T* x, uint64_t count, value_signs<float>& out) {
  const auto mean = static_cast<float>(sum_above(x, count, -1.0F).sum / static_cast<double>(count));
  out = {0, mean};
  if (kind == quantiser_kind::ternary) {
    out.threshold = 0.7F * mean;
    const magnitudes above = sum_above(x, count, out.threshold);
    out.size = static_cast<float>(above.sum / above.count);
  }
  return isfinite(out.size) && out.size > 0;
}

/// A block of threads to a group.
template <class T>
__global__ void quantise_kernel(const T* x, T* y, uint64_t groups, uint64_t size, quantiser q,
                                const value_range<double>* ranges, uint64_t num_ranges, element_noise noise) {
  for (uint64_t group = blockIdx.x; group < groups; group += gridDim.x) {
    const uint64_t first = group * size;
    value_grid<float> grid;
    value_signs<float> signs;
    bool has_signs = false;
    if (q.has_grid()) {
      value_range<float> range;
      if (ranges == nullptr) {
        range = range_in(x + first, size);
      } else {
        const value_range<double> known = ranges[num_ranges == 1 ? 0 : group];
        range = {static_cast<float>(known.least), static_cast<float>(known.largest)};
      }
      grid = grid_of(q, range);
    } else {
      has_signs = signs_of(q.kind, x + first, size, signs);
    }
    for (uint64_t i = first + threadIdx.x; i < first + size; i += blockDim.x) {
      if (grid.quantises)
        y[i] = narrow<T>(on_grid<float>(widen(x[i]), grid, noise.of(i)));
      else if (has_signs)
        y[i] = narrow<T>(as_sign<float>(widen(x[i]), signs));
      else
        y[i] = x[i];
    }
    __syncthreads();  // y may be x
  }
}

template <class T>
__global__ void ranges_kernel(const T* x, uint64_t groups, uint64_t size, value_range<double>* out) {
  for (uint64_t group = blockIdx.x; group < groups; group += gridDim.x) {
    const value_range<float> range = range_in(x + group * size, size);
    if (threadIdx.x == 0) out[group] = {range.least, range.largest};
  }
}

unsigned blocks_of(uint64_t groups) { return static_cast<unsigned>(std::clamp<uint64_t>(groups, 1, max_blocks)); }

}  // namespace

core::result<void> fake_quantise(const grouped_values& x, const quantiser& q, std::byte* y,
                                 std::span<const value_range<double>> ranges, const stochastic_rounding* rounding,
                                 stream on) {
  assert(ranges.empty() || (q.has_grid() && (ranges.size() == 1 || ranges.size() == x.groups)));
  if (x.group_size == 0) return {};
  with_fp32_dtype(x.type, [&]<class T>(std::type_identity<T>) {
    quantise_kernel<<<blocks_of(x.groups), threads_per_block, 0, on>>>(
        reinterpret_cast<const T*>(x.x), reinterpret_cast<T*>(y), x.groups, x.group_size, q,
        ranges.empty() ? nullptr : ranges.data(), ranges.size(), noise_of(rounding));
  });
  return launched("fake_quantise");
}

core::result<void> group_ranges(const grouped_values& x, std::span<value_range<double>> out, stream on) {
  assert(out.size() == x.groups && x.group_size > 0);
  with_fp32_dtype(x.type, [&]<class T>(std::type_identity<T>) {
    ranges_kernel<<<blocks_of(x.groups), threads_per_block, 0, on>>>(reinterpret_cast<const T*>(x.x), x.groups,
                                                                     x.group_size, out.data());
  });
  return launched("group_ranges");
}

}  // namespace troupe::kernels::cuda
