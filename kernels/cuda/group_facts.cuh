// Computes, before the elements of a group are quantised, the range of its values and the sum of their magnitudes.
// Implements, for a team of threads, the order of additions that kernels/compress/fake_quantise.hpp defines.
#pragma once

#include <cstdint>

#include "kernels/compress/fake_quantise.hpp"
#include "kernels/cuda/group_teams.cuh"

namespace troupe::kernels::cuda {

/// Number of running sums (lanes) of a group: element i is added to sum i mod 16.
inline constexpr unsigned sum_lanes = 16;

/// Maps a float to an integer such that greater floats have greater integers; NaN are mapped below or above all
/// numbers, by their sign.
__device__ inline int32_t ordered(float x) {
  const int32_t bits = __float_as_int(x);
  return bits ^ ((bits >> 31) & 0x7FFFFFFF);
}
__device__ inline float unordered(int32_t x) { return __int_as_float(x ^ ((x >> 31) & 0x7FFFFFFF)); }

/// Returns the least and the largest value of a group to all threads of its team. The elements are loaded in parts of
/// held_packs::elements; those of the last part stay in `held`, which therefore has the whole group if it is no larger
/// than one part.
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
    __syncthreads();  // no thread may overwrite `lows` and `highs` for the next group before all have read this group's
  }
  value_range<float> out{unordered(low), unordered(high)};
  if (isnan(out.least) || isnan(out.largest)) out.least = out.largest = __int_as_float(0x7FC00000);
  return out;
}

/// Adds the values of 16 neighbouring threads pairwise: those of threads l + 8 to those of l, then l + 4, l + 2, l + 1.
/// The first thread returns the sum.
__device__ inline double folded(double lane) {
  for (unsigned half = sum_lanes / 2; half > 0; half /= 2) lane += __shfl_down_sync(all_lanes, lane, half, sum_lanes);
  return lane;
}

/// Sum of the magnitudes that one of the 16 lanes has added, and their number.
struct lane_sum {
  double sum = 0;
  uint32_t count = 0;  ///< number of added magnitudes; 32 bits suffice, because a group has fewer than 2^36 elements

  /// Adds a magnitude if it is above the threshold or if there is no threshold; NaN is always added.
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

/// Returns the sum and number of |x| of a group, or of those above the threshold, to all threads of its team: element i
/// is added to lane i mod 16, each lane in the order of i, then the lanes pairwise. `is_fetched`: true if `tile` has
/// the whole group already.
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
    __syncthreads();  // no thread may overwrite the tile for the next sum before all have read this one
    return out;
  }
}

/// Computes the two numbers with which a ternary or binary group is quantised: the threshold, and the magnitude that
/// all values above it get. Returns false if the group must keep its values.
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
