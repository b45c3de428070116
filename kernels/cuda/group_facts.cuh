// What has to be known of a whole group before any of its elements is quantised: its range, the sum of its magnitudes.
// Owns in which order a team of threads adds; kernels/compress/fake_quantise.hpp says which that has to be.
#pragma once

#include <cstdint>

#include "kernels/compress/fake_quantise.hpp"
#include "kernels/cuda/group_teams.cuh"

namespace troupe::kernels::cuda {

/// Running sums of a group.
inline constexpr unsigned sum_lanes = 16;

/// Integers in the order of the floats that have these bits; NaN at either end.
__device__ inline int32_t ordered(float x) {
  const int32_t bits = __float_as_int(x);
  return bits ^ ((bits >> 31) & 0x7FFFFFFF);
}
__device__ inline float unordered(int32_t x) { return __int_as_float(x ^ ((x >> 31) & 0x7FFFFFFF)); }

/// The range of a group, known to all of its threads. The packs of its last part stay in `held`: all of a group that is
/// no larger than they are together.
template <class Team, int N, class T>
__device__ value_range<float> range_in(const T* x, uint64_t size, held_packs<Team, N, T>& held) {
  int32_t low = INT32_MAX, high = INT32_MIN;
  for (uint64_t first = 0; first < size; first += held.elements) {
    held.load(x, size, first);
    held.each(size, first, [&](uint64_t, const pack<T, N>& values) {
#pragma unroll
      for (int k = 0; k < N; ++k) {
        const int32_t key = ordered(widen(values.of[k]));
        low = min(low, key);
        high = max(high, key);
      }
    });
  }
  constexpr unsigned in_warp = Team::is_in_warp ? Team::threads : warp_threads;
  for (unsigned step = in_warp / 2; step > 0; step /= 2) {
    low = min(low, __shfl_xor_sync(Team::lanes(), low, step));
    high = max(high, __shfl_xor_sync(Team::lanes(), high, step));
  }
  if constexpr (!Team::is_in_warp) {
    __shared__ int32_t lows[Team::threads / warp_threads], highs[Team::threads / warp_threads];
    if (threadIdx.x % warp_threads == 0) {
      lows[threadIdx.x / warp_threads] = low;
      highs[threadIdx.x / warp_threads] = high;
    }
    __syncthreads();
#pragma unroll
    for (unsigned w = 0; w < Team::threads / warp_threads; ++w) {
      low = min(low, lows[w]);
      high = max(high, highs[w]);
    }
    __syncthreads();  // nobody begins the next group's before all have read this one's
  }
  value_range<float> out{unordered(low), unordered(high)};
  if (isnan(out.least) || isnan(out.largest)) out.least = out.largest = __int_as_float(0x7FC00000);
  return out;
}

/// Lanes added in halves; the sum is in lane 0.
__device__ inline double folded(double lane) {
  for (unsigned half = sum_lanes / 2; half > 0; half /= 2) lane += __shfl_down_sync(all_lanes, lane, half, sum_lanes);
  return lane;
}

/// Some magnitudes of one lane.
struct lane_sum {
  double sum = 0;
  uint32_t count = 0;  ///< a group has fewer than 2^36 elements

  /// Unless it is at most the threshold, if there is one: NaN are not.
  template <bool has_threshold>
  __device__ void add(float magnitude, float threshold) {
    const bool is_above = !has_threshold || !(magnitude <= threshold);
    sum += is_above ? magnitude : 0.0F;
    count += is_above ? 1 : 0;
  }
};

/// Where a block of threads fetches magnitudes to, for sixteen of them to add in order.
struct magnitude_tile {
  static constexpr unsigned elements = 4096;
  static_assert(elements % sum_lanes == 0);
  float of[elements];
  double sum, count;
};

/// The sum of |x|, of those that are not at most the threshold if there is one: element i in lane i mod 16, each lane
/// in the order of i, lanes added in halves. Known to all threads of the group. `is_fetched`: the tile holds the group
/// already.
template <class Team, bool has_threshold, class T>
__device__ magnitudes sum_of_magnitudes(const T* x, uint64_t size, float threshold, magnitude_tile* tile,
                                        bool is_fetched) {
  static_assert(Team::threads >= warp_threads);
  lane_sum lane;
  if constexpr (Team::is_in_warp) {
    if (Team::rank() < sum_lanes) {
#pragma unroll 8
      for (uint64_t i = Team::rank(); i < size; i += sum_lanes) lane.add<has_threshold>(fabsf(widen(x[i])), threshold);
    }
    __syncwarp();
    const double sum = folded(lane.sum), count = folded(static_cast<double>(lane.count));
    return {__shfl_sync(all_lanes, sum, 0), __shfl_sync(all_lanes, count, 0)};
  } else {
    for (uint64_t first = 0; first < size; first += tile->elements) {
      const auto count = static_cast<unsigned>(min(uint64_t{tile->elements}, size - first));
      if (!is_fetched) {
#pragma unroll 8
        for (unsigned i = threadIdx.x; i < count; i += Team::threads) tile->of[i] = fabsf(widen(x[first + i]));
        __syncthreads();
      }
      if (threadIdx.x < sum_lanes) {
#pragma unroll 8
        for (unsigned i = threadIdx.x; i < count; i += sum_lanes) lane.add<has_threshold>(tile->of[i], threshold);
      }
      if (!is_fetched) __syncthreads();
    }
    if (threadIdx.x < warp_threads) {
      const double sum = folded(lane.sum), count = folded(static_cast<double>(lane.count));
      if (threadIdx.x == 0) {
        tile->sum = sum;
        tile->count = count;
      }
    }
    __syncthreads();
    const magnitudes out{tile->sum, tile->count};
    __syncthreads();  // nobody begins the next sum before all have read this one
    return out;
  }
}

/// How the elements of a group without a grid are replaced; false: the group keeps its values.
template <class Team, class T>
__device__ bool signs_of(quantiser_kind kind, const T* x, uint64_t size, magnitude_tile* tile,
                         value_signs<float>& out) {
  const magnitudes all = sum_of_magnitudes<Team, false>(x, size, 0, tile, false);
  const auto mean = static_cast<float>(all.sum / static_cast<double>(size));
  out = {0, mean};
  if (kind == quantiser_kind::ternary) {
    out.threshold = 0.7F * mean;
    const magnitudes above =
        sum_of_magnitudes<Team, true>(x, size, out.threshold, tile, size <= magnitude_tile::elements);
    out.size = static_cast<float>(above.sum / above.count);
  }
  return isfinite(out.size) && out.size > 0;
}

}  // namespace troupe::kernels::cuda
