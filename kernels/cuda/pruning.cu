#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/packs.cuh"

namespace troupe::kernels::cuda {
namespace {

/// Sets elements whose mask entry is 0 to zero; the mask has one entry per element. Stores whole packs, even if some of
/// their elements are kept, because memory is written in sectors of 32 bytes anyway.
template <int N, class T>
__global__ void elements_kernel(T* x, const uint8_t* keep, uint64_t count) {
  for_each_pack<N>(count, [&]<int n>(width<n>, uint64_t i) {
    const auto kept = load_pack<n>(keep + i);
    bool all = true;
#pragma unroll
    for (int k = 0; k < n; ++k) all = all && kept.of[k] != 0;
    if (all) return;
    auto values = load_pack<n>(x + i);
#pragma unroll
    for (int k = 0; k < n; ++k)
      if (kept.of[k] == 0) values.of[k] = T{};
    store_pack(values, x + i);
  });
}

/// Sets runs of `length` neighbouring elements to zero if their mask entry is 0: run r of the `runs` runs has entry r
/// mod `entries`. One warp per run; used for runs of at least a warp's number of elements.
template <int N, class T>
__global__ void runs_kernel(T* x, uint64_t runs, uint64_t length, const uint8_t* keep, uint64_t entries) {
  for (uint64_t r = first_index() / warp_threads; r < runs; r += stride() / warp_threads) {
    if (keep[r % entries] != 0) continue;
    T* const run = x + r * length;
    for (uint64_t i = threadIdx.x % warp_threads; i < length / N; i += warp_threads)
      store_pack(pack<T, N>{}, run + i * N);
  }
}

/// Sets runs of `length` neighbouring elements to zero if their mask entry is 0: run r has entry r mod `entries`. One
/// thread per element; used for runs shorter than a warp.
template <class T>
__global__ void short_runs_kernel(T* x, uint64_t count, uint64_t length, const uint8_t* keep, uint64_t entries) {
  for (uint64_t i = first_index(); i < count; i += stride())
    if (keep[i / length % entries] == 0) x[i] = T{};
}

core::result<void> mask_runs(std::byte* x, core::dtype type, uint64_t runs, uint64_t length,
                             std::span<const uint8_t> keep, stream on, const char* name) {
  const uint64_t count = runs * length;
  if (count == 0) return {};
  with_float_dtype(type, [&]<class T>(std::type_identity<T>) {
    constexpr int most = access_bytes / sizeof(T);
    auto* values = reinterpret_cast<T*>(x);
    if (length < warp_threads) {
      short_runs_kernel<<<blocks_for(count), threads_per_block, 0, on>>>(values, count, length, keep.data(),
                                                                         keep.size());
    } else if (length % most == 0 && allow_packs<most>(values)) {
      runs_kernel<most><<<blocks_for(runs * warp_threads), threads_per_block, 0, on>>>(values, runs, length,
                                                                                       keep.data(), keep.size());
    } else {
      runs_kernel<1><<<blocks_for(runs * warp_threads), threads_per_block, 0, on>>>(values, runs, length, keep.data(),
                                                                                    keep.size());
    }
  });
  return launched(name);
}

}  // namespace

core::result<void> mask_elements(std::byte* x, core::dtype type, std::span<const uint8_t> keep, stream on) {
  if (keep.empty()) return {};
  with_float_dtype(type, [&]<class T>(std::type_identity<T>) {
    auto* values = reinterpret_cast<T*>(x);
    with_width<4>(allow_packs<4>(values, keep.data()), keep.size(), [&]<int N>(width<N>, unsigned blocks) {
      elements_kernel<N><<<blocks, threads_per_block, 0, on>>>(values, keep.data(), keep.size());
    });
  });
  return launched("mask_elements");
}

core::result<void> mask_rows(std::byte* x, core::dtype type, uint64_t width, std::span<const uint8_t> keep, stream on) {
  if (width == 1) return mask_elements(x, type, keep, on);
  return mask_runs(x, type, keep.size(), width, keep, on, "mask_rows");
}

core::result<void> mask_heads(std::byte* x, core::dtype type, uint64_t rows, uint64_t head_width,
                              std::span<const uint8_t> keep, stream on) {
  return mask_runs(x, type, rows * keep.size(), head_width, keep, on, "mask_heads");
}

}  // namespace troupe::kernels::cuda
