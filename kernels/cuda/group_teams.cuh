// Who works on a group of neighbouring elements: some threads of a warp, or all of a block. Owns how a group's elements
// are shared out among them and how many each holds at once; what is done with the elements is the kernels'.
#pragma once

#include <cstdint>

#include "kernels/cuda/packs.cuh"

namespace troupe::kernels::cuda {

/// Packs that a thread loads before it looks at the first.
inline constexpr unsigned packs_ahead = 4;

/// The threads that share a group: a part of a warp, or all of a block. A block has several of the former.
template <unsigned Threads>
struct team {
  static constexpr bool is_in_warp = Threads <= warp_threads;
  static constexpr unsigned threads = Threads;
  static constexpr unsigned block = is_in_warp ? threads_per_block : Threads;

  __device__ static unsigned rank() { return threadIdx.x % Threads; }
  __device__ static uint64_t first_group() { return is_in_warp ? first_index() / Threads : blockIdx.x; }
  __device__ static uint64_t step() { return is_in_warp ? stride() / Threads : gridDim.x; }
  /// Those of the warp that are of the team.
  __device__ static unsigned lanes() {
    if constexpr (Threads >= warp_threads)
      return all_lanes;
    else
      return ((1U << Threads) - 1) << (threadIdx.x % warp_threads / Threads * Threads);
  }
};

/// One thread's packs among neighbouring ones of a group of `size` elements, a multiple of N: as many as it loads
/// ahead.
template <class Team, int N, class T>
struct held_packs {
  static constexpr unsigned elements = packs_ahead * N * Team::threads;  ///< of all threads together

  pack<T, N> of[packs_ahead];

  /// Those from element `first` on.
  __device__ void load(const T* x, uint64_t size, uint64_t first) {
    const unsigned left = rest(size, first), mine = N * Team::rank();
#pragma unroll
    for (unsigned a = 0; a < packs_ahead; ++a)
      if (a * N * Team::threads + mine < left) of[a] = load_pack<N>(x + first + mine + a * N * Team::threads);
  }
  /// Calls `f(i, pack)` for those that were loaded.
  template <class F>
  __device__ void each(uint64_t size, uint64_t first, F&& f) {
    const unsigned left = rest(size, first), mine = N * Team::rank();
#pragma unroll
    for (unsigned a = 0; a < packs_ahead; ++a)
      if (a * N * Team::threads + mine < left) f(first + mine + a * N * Team::threads, of[a]);
  }

 private:
  __device__ static unsigned rest(uint64_t size, uint64_t first) {
    return static_cast<unsigned>(min(size - first, uint64_t{elements}));
  }
};

}  // namespace troupe::kernels::cuda
