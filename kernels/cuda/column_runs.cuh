// Sums over the rows of a matrix, column by column, in two stages: first the sums of runs of 64 rows, each added in row
// order, then the sum of these sums, in order. The CPU kernels use the same order, so equal terms give the same bits on
// both.
#pragma once

#include <algorithm>

#include "kernels/cuda/packs.cuh"
#include "kernels/layers/row_norm.hpp"
#include "kernels/sums/column_sums.hpp"

namespace troupe::kernels::cuda {

inline constexpr uint64_t run_rows = 64;
static_assert(run_rows == norm_row_grain && run_rows == column_sum_grain, "runs are the CPU's");

/// Number of threads of a block: few, because a thread adds whole columns, and a matrix may have few columns; small
/// blocks then still occupy many multiprocessors.
inline constexpr unsigned column_threads = 64;

inline uint64_t runs_of(uint64_t rows) { return core::div_up(rows, run_rows); }
inline unsigned column_blocks(uint64_t threads) {
  return static_cast<unsigned>(std::clamp<uint64_t>(core::div_up(threads, column_threads), 1, max_blocks));
}

/// Sums rows [first, end) of N neighbouring columns from `column` on, and writes the sums to `out`. `terms.at<N>(row,
/// column, out)` returns the terms of one row.
template <int N, class Terms, class Out>
__device__ void sum_run(const Terms& terms, uint64_t first, uint64_t end, uint64_t column, Out* out) {
  float sum[N] = {};
#pragma unroll 16  // 16 loads are in flight at once
  for (uint64_t r = first; r < end; ++r) {
    float more[N];
    terms.template at<N>(r, column, more);
#pragma unroll
    for (int k = 0; k < N; ++k) sum[k] += more[k];
  }
#pragma unroll
  for (int k = 0; k < N; ++k) out[column + k] = narrow<Out>(sum[k]);
}

/// First stage of a sum over rows: sets out[run * pitch + column] to the sum over each run of rows, for `width`
/// columns, N of them per thread. N must be 1 unless rows can be loaded in packs of N. The sum of a run is never -0, so
/// if there is only one run it has the bits of the whole sum.
template <int N, class Terms, class Out>
__global__ void __launch_bounds__(column_threads)
    column_runs_kernel(Terms terms, uint64_t rows, uint64_t width, Out* out, uint64_t pitch) {
  const uint64_t runs = (rows + run_rows - 1) / run_rows, across = (width + N - 1) / N;
  for (uint64_t i = first_index(); i < runs * across; i += stride()) {
    const uint64_t run = i / across, first = run * run_rows;
    const uint64_t end = first + run_rows < rows ? first + run_rows : rows;
    uint64_t column = i % across * N;
    if (column + N <= width)
      sum_run<N>(terms, first, end, column, out + run * pitch);
    else
      for (; column < width; ++column) sum_run<1>(terms, first, end, column, out + run * pitch);
  }
}

/// Second stage of a sum over rows: sets out[c], for `width` columns, to the sum of the `runs` sums of the first stage,
/// in order.
template <class Out>
__global__ void __launch_bounds__(column_threads)
    add_runs_kernel(const float* sums, uint64_t runs, uint64_t pitch, uint64_t width, Out* out) {
  for (uint64_t c = first_index(); c < width; c += stride()) {
    float total = 0;
#pragma unroll 32
    for (uint64_t run = 0; run < runs; ++run) total += sums[run * pitch + c];
    out[c] = narrow<Out>(total);
  }
}

/// The terms of a sum over the rows of a stored matrix: the elements of row r begin at x + r * row_stride.
template <class T>
struct stored_rows {
  const T* x;
  uint64_t row_stride;

  template <int N>
  __device__ void at(uint64_t row, uint64_t column, float (&out)[N]) const {
    const auto values = load_pack<N>(x + row * row_stride + column);
#pragma unroll
    for (int k = 0; k < N; ++k) out[k] = widen(values.of[k]);
  }
};

}  // namespace troupe::kernels::cuda
