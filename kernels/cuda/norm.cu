#include <cassert>
#include <vector>

#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/packs.cuh"
#include "kernels/cuda/run_list.cuh"

namespace troupe::kernels::cuda {
namespace {

constexpr unsigned lanes = norm_lanes;

template <class T>
struct squared_run {
  const T* values;
  double* out;
  uint64_t count;
};

/// Computes the sum of squares of each block of 1,024 elements with 16 / L threads: element i belongs to running sum i
/// mod 16, and a thread has L neighbouring sums, so that one load has four bytes or more and neighbouring threads read
/// neighbouring elements.
template <int L, class T>
__global__ void square_sums_kernel(const __grid_constant__ run_list<squared_run<T>> runs) {
  constexpr unsigned threads = lanes / L;
  constexpr uint64_t blocks_of_warp = warp_threads / threads;
  const unsigned lane = threadIdx.x % threads * L;
  const uint64_t blocks = runs.parts(), whole_warps = core::div_up(blocks, blocks_of_warp) * blocks_of_warp;
  uint64_t run = 0;
  // The loop runs over whole warps, because all threads of a warp take part in every shuffle, also those that have no
  // block.
  for (uint64_t b = first_index() / threads; b < whole_warps; b += stride() / threads) {
    double sums[L] = {};
    const auto add = [&](int l, T value) {
      const double x = widen(value);
      sums[l] += x * x;
    };
    double* out = nullptr;
    if (b < blocks) {
      const uint64_t block = part_of_run(runs, b, run), first = block * core::partition_grain;
      const auto& x = runs.of[run];
      out = x.out + block;
      if (first + core::partition_grain <= x.count) {
        const T* const mine = x.values + first + lane;
#pragma unroll 16  // unrolled so that 16 loads are in flight at once
        for (uint64_t k = 0; k < core::partition_grain / lanes; ++k) {
          const auto loaded = load_pack<L>(mine + k * lanes);
#pragma unroll
          for (int l = 0; l < L; ++l) add(l, loaded.of[l]);
        }
      } else {
        for (int l = 0; l < L; ++l)
          for (uint64_t i = first + lane + l; i < x.count; i += lanes) add(l, x.values[i]);
      }
    }
#pragma unroll
    for (unsigned half = threads / 2; half > 0; half /= 2)
      for (int l = 0; l < L; ++l) sums[l] += __shfl_down_sync(all_lanes, sums[l], half, threads);
    if constexpr (L > 1) sums[0] += sums[1];
    if (threadIdx.x % threads == 0 && out != nullptr) *out = sums[0];
  }
}

template <class T>
core::result<void> sum_squares(const std::vector<const squared_elements*>& all, bool pairs, stream on) {
  const auto run_of = [](const squared_elements* x) {
    return squared_run<T>{reinterpret_cast<const T*>(x->values), x->out.data(), x->count};
  };
  const auto parts_of = [](const squared_elements* x) { return x->out.size(); };
  return in_lists(all, run_of, parts_of, [&](const auto& runs) {
    const unsigned blocks = blocks_for(runs.parts() * lanes / (pairs ? 2 : 1));
    if (pairs)
      square_sums_kernel<2><<<blocks, threads_per_block, 0, on>>>(runs);
    else
      square_sums_kernel<1><<<blocks, threads_per_block, 0, on>>>(runs);
    return launched("block_square_sums");
  });
}

}  // namespace

core::result<void> block_square_sums(std::span<const squared_elements> all, core::dtype type, stream on) {
  return with_float_dtype(type, [&]<class T>(std::type_identity<T>) -> core::result<void> {
    std::vector<const squared_elements*> one_by_one, in_pairs;
    for (const auto& x : all) {
      assert(x.out.size() == core::div_up(x.count, core::partition_grain));
      const bool pairs = sizeof(T) == 2 && allow_packs<2>(reinterpret_cast<const T*>(x.values));
      if (x.count > 0) (pairs ? in_pairs : one_by_one).push_back(&x);
    }
    if (auto ok = sum_squares<T>(one_by_one, false, on); !ok) return ok;
    return sum_squares<T>(in_pairs, true, on);
  });
}

}  // namespace troupe::kernels::cuda
