#include "kernels/sums/grouped_sums.hpp"

#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/rows.cuh"

namespace troupe::kernels::cuda {
namespace {

/// Number of rows up to which a group is short, and one thread adds all of them. The rows of a longer group are loaded
/// by a whole block; they are added one after another all the same, so the bits are equal.
constexpr int64_t long_group = 64;

/// Number of 16-byte words of a row, neighbouring columns, that a block of long_groups_kernel processes at once.
constexpr unsigned slab_words = 8;
constexpr unsigned slab_rows = 256;   ///< number of rows of a long group in shared memory at once
constexpr unsigned slab_groups = 16;  ///< number of groups among which one block searches for long ones
constexpr unsigned slab_threads = 256;
template <class T>
constexpr unsigned slab_columns = slab_words* access_elements<T>;

/// Sums the rows of each short group, with one thread for each group and 16 bytes of columns.
template <bool by_packs, class T>
__global__ void short_groups_kernel(const T* rows, uint64_t width, row_groups groups, T* sums) {
  constexpr int n = access_elements<T>;
  const uint64_t across = (width + n - 1) / n;
  for (uint64_t i = first_index(); i < groups.count * across; i += stride()) {
    const uint64_t group = i / across;
    const auto column = static_cast<unsigned>(i % across) * n;
    const int64_t first = groups.begin[group], end = groups.begin[group + 1];
    if (end - first > long_group) continue;
    float sum[n] = {};
#pragma unroll 8  // unrolled so that 8 loads are in flight at once
    for (int64_t at = first; at < end; ++at) {
      const auto x = load_columns<by_packs>(rows + static_cast<uint64_t>(groups.order[at]) * width, column,
                                            static_cast<unsigned>(width));
#pragma unroll
      for (int k = 0; k < n; ++k) sum[k] += as_float(x.of[k]);
    }
    row_pack<T> out;
#pragma unroll
    for (int k = 0; k < n; ++k) out.of[k] = as_stored<T>(sum[k]);
    store_columns<by_packs>(out, sums + group * width, column, static_cast<unsigned>(width));
  }
}

/// Sums the rows of one long group in the columns from `column` on: all threads of the block load `slab_rows` rows at a
/// time into `slab`, and one thread per column adds them in order.
template <bool by_packs, class T>
__device__ void sum_long_group(const T* rows, uint64_t width, const int64_t* order, int64_t count, unsigned column,
                               T* sums, row_pack<T> (&slab)[slab_rows][slab_words]) {
  constexpr int n = access_elements<T>, at_once = slab_rows * slab_words / slab_threads;
  const unsigned word = threadIdx.x % slab_words, mine = column + threadIdx.x;
  const bool adds = threadIdx.x < slab_columns<T> && mine < width;
  float sum = 0;
  for (int64_t first = 0; first < count; first += slab_rows) {
    row_pack<T> x[at_once];
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      const int64_t at = first + threadIdx.x / slab_words + u * (slab_threads / slab_words);
      x[u] = at < count ? load_columns<by_packs>(rows + static_cast<uint64_t>(order[at]) * width, column + word * n,
                                                 static_cast<unsigned>(width))
                        : row_pack<T>{};
    }
    __syncthreads();  // waits until the previous rows in `slab` have been added
#pragma unroll
    for (int u = 0; u < at_once; ++u) slab[threadIdx.x / slab_words + u * (slab_threads / slab_words)][word] = x[u];
    __syncthreads();
    const auto loaded = static_cast<unsigned>(count - first < slab_rows ? count - first : slab_rows);
    if (adds)
#pragma unroll 16
      for (unsigned r = 0; r < loaded; ++r) sum += as_float(slab[r][threadIdx.x / n].of[threadIdx.x % n]);
  }
  if (adds) sums[mine] = as_stored<T>(sum);
}

/// Sums the long groups: a block searches `slab_groups` neighbouring groups for long ones, and sums slab_words words of
/// their columns.
template <bool by_packs, class T>
__global__ void __launch_bounds__(slab_threads)
    long_groups_kernel(const T* rows, uint64_t width, row_groups groups, T* sums) {
  __shared__ row_pack<T> slab[slab_rows][slab_words];
  const uint64_t across = (width + slab_columns<T> - 1) / slab_columns<T>;
  const uint64_t runs = (groups.count + slab_groups - 1) / slab_groups;
  for (uint64_t i = blockIdx.x; i < runs * across; i += gridDim.x) {
    const auto column = static_cast<unsigned>(i % across * slab_columns<T>);
    const uint64_t from = i / across * slab_groups;
    for (uint64_t group = from; group < from + slab_groups && group < groups.count; ++group) {
      const int64_t first = groups.begin[group], count = groups.begin[group + 1] - first;
      if (count > long_group)
        sum_long_group<by_packs>(rows, width, groups.order + first, count, column, sums + group * width, slab);
    }
  }
}

}  // namespace

core::result<void> grouped_sums(const std::byte* rows, core::dtype type, uint64_t width, const row_groups& groups,
                                std::byte* sums, stream on) {
  if (auto fits = in_fp32("grouped_sums", type); !fits) return fits;
  if (groups.count == 0 || width == 0) return {};
  with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    constexpr int n = access_elements<T>;
    const auto* const x = reinterpret_cast<const T*>(rows);
    auto* const out = reinterpret_cast<T*>(sums);
    const unsigned blocks = blocks_for(groups.count * core::div_up(width, n));
    const auto slabs = static_cast<unsigned>(
        std::min(core::div_up(groups.count, slab_groups) * core::div_up(width, slab_columns<T>), max_blocks));
    if (width % n == 0 && allow_packs<n>(x, out)) {
      short_groups_kernel<true><<<blocks, threads_per_block, 0, on>>>(x, width, groups, out);
      long_groups_kernel<true><<<slabs, slab_threads, 0, on>>>(x, width, groups, out);
    } else {
      short_groups_kernel<false><<<blocks, threads_per_block, 0, on>>>(x, width, groups, out);
      long_groups_kernel<false><<<slabs, slab_threads, 0, on>>>(x, width, groups, out);
    }
  });
  return launched("grouped_sums");
}

}  // namespace troupe::kernels::cuda
