// Teams of threads that process a group of neighbouring elements: some threads of a warp, or all of a block. Owns how a
// group's elements are distributed over them and how many each thread holds at once; leaves the operation on elements
// to the kernels.
#pragma once

#include <cstdint>

#include "kernels/cuda/packs.cuh"

namespace troupe::kernels::cuda {

/// Number of packs (neighbouring elements of one access) that a thread loads before it uses the first of them.
inline constexpr unsigned packs_ahead = 4;

/// A team: the threads that process one group together, either a part of a warp, of which a block has several teams, or
/// all threads of a block.
template <unsigned Threads>
struct team {
  static constexpr bool is_in_warp = Threads <= warp_threads;
  static constexpr unsigned threads = Threads;
  static constexpr unsigned block = is_in_warp ? threads_per_block : Threads;

  __device__ static unsigned rank() { return threadIdx.x % Threads; }
  __device__ static uint64_t first_group() { return is_in_warp ? first_index() / Threads : blockIdx.x; }
  __device__ static uint64_t step() { return is_in_warp ? stride() / Threads : gridDim.x; }
  /// Returns the mask of the warp's threads that belong to the team.
  __device__ static unsigned lanes() {
    if constexpr (Threads >= warp_threads)
      return all_lanes;
    else
      return ((1U << Threads) - 1) << (threadIdx.x % warp_threads / Threads * Threads);
  }
};

/// The packs of N neighbouring elements that one thread holds in registers: its part of the elements of a group that a
/// team loads at once. The group has `size` elements, a multiple of N.
template <class Team, int N, class T>
struct held_packs {
  /// Number of elements that all threads of a team hold together.
  static constexpr unsigned elements = packs_ahead * N * Team::threads;

  pack<T, N> of[packs_ahead];

  /// Loads this thread's packs out of the next `elements` elements of the group x, from element `first` on.
  __device__ void load(const T* x, uint64_t size, uint64_t first) {
    const unsigned left = rest(size, first), mine = N * Team::rank();
#pragma unroll
    for (unsigned a = 0; a < packs_ahead; ++a)
      if (a * N * Team::threads + mine < left) of[a] = load_pack<N>(x + first + mine + a * N * Team::threads);
  }
  /// Calls `f(i, pack)` for each pack that load() with the same `size` and `first` has loaded; i is the index of its
  /// first element in the group.
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
