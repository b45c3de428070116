// Computes the facts of a whole group that its elements need before they are quantised: its range, and the sum of its
// magnitudes. Owns the order in which a team of threads adds; kernels/compress/fake_quantise.hpp defines which order
// that must be.
#pragma once

#include <cstdint>

#include "kernels/compress/fake_quantise.hpp"
#include "kernels/cuda/group_teams.cuh"

namespace troupe::kernels::cuda {

/// Number of lanes that the running sums of a group are spread over.
inline constexpr unsigned sum_lanes = 16;

/// Maps the bits of floats to integers in the same order; NaN at either end.
__device__ inline int32_t ordered(float x) {
  const int32_t bits = __float_as_int(x);
  return bits ^ ((bits >> 31) & 0x7FFFFFFF);
}
__device__ inline float unordered(int32_t x) { return __int_as_float(x ^ ((x >> 31) & 0x7FFFFFFF)); }

/// Returns the range of the group to all of its threads. The packs of the group's last part stay in `held`; if the
/// group is no larger than one part, that is the whole group.
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
    __syncthreads();  // all threads read this group's range before any begins the next
  }
  value_range<float> out{unordered(low), unordered(high)};
  if (isnan(out.least) || isnan(out.largest)) out.least = out.largest = __int_as_float(0x7FC00000);
  return out;
}

/// Adds the values of 16 lanes in halves; lane 0 returns the sum.
__device__ inline double folded(double lane) {
  for (unsigned half = sum_lanes / 2; half > 0; half /= 2) lane += __shfl_down_sync(all_lanes, lane, half, sum_lanes);
  return lane;
}

/// Sum and number of those magnitudes that one lane has added.
struct lane_sum {
  double sum = 0;
  uint32_t count = 0;  ///< number of elements above the threshold; a group has fewer than 2^36

  /// Adds a magnitude, unless it is at most the threshold, if there is one; NaN is added.
  template <bool has_threshold>
  __device__ void add(float magnitude, float threshold) {
    const bool is_above = !has_threshold || !(magnitude <= threshold);
    sum += is_above ? magnitude : 0.0F;
    count += is_above ? 1 : 0;
  }
};

/// Shared memory into which a block of threads loads magnitudes, for sixteen threads to add in order.
struct magnitude_tile {
  static constexpr unsigned elements = 4096;
  static_assert(elements % sum_lanes == 0);
  float of[elements];
  double sum, count;
};

/// Returns to all threads of the group the sum of |x|, excluding those that are at most the threshold if there is one:
/// element i in lane i mod 16, each lane in the order of i, lanes added in halves. `is_fetched`: true if the tile holds
/// the group already.
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
    __syncthreads();  // all threads read this sum before any begins the next
    return out;
  }
}

/// Computes the threshold and the size with which a ternary or binary group is quantised. Returns false if the group
/// keeps its values.
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
