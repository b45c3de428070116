#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/column_runs.cuh"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/scratch.cuh"

namespace troupe::kernels::cuda {
namespace {

/// How many rows a block of threads processes at once (`rows`), and how many packs of 16 bytes of each row a thread
/// holds in registers (`packs`).
template <int Packs, int Rows>
struct row_shape {
  static constexpr int packs = Packs, rows = Rows;
  /// True if the backward kernel also adds up the gradients of weight and bias, column by column, in the same pass;
  /// with more packs per thread there would be no registers for these sums.
  static constexpr bool adds_columns = packs <= 2;
};

/// Calls `f` with the row_shape for rows of `width` elements; returns an error if no shape supports rows that long.
template <class T, class F>
core::result<void> with_shape(const char* kernel, uint64_t width, F&& f) {
  const uint64_t packs = core::div_up(width, access_elements<T>);
  if (packs <= most_row_threads) return f(row_shape<1, 4>{});
  if (packs <= 2 * most_row_threads) return f(row_shape<2, 2>{});
  if (packs <= 8 * most_row_threads) return f(row_shape<8, 1>{});
  return core::fail(core::error_kind::limit, std::string("CUDA kernel ") + kernel + ": wanted rows of at most " +
                                                 std::to_string(8 * most_row_threads * access_elements<T>) +
                                                 " elements of this type, got " + std::to_string(width));
}

/// The elements of the rows that a block of threads processes at once, in registers: rows from `first` on; rows from
/// `end` on are filled with zeros.
template <class Shape, class T>
struct row_batch {
  row_pack<T> of[Shape::rows][Shape::packs];

  template <bool by_packs>
  __device__ void load(const T* from, uint64_t first, uint64_t end, unsigned width) {
#pragma unroll
    for (int b = 0; b < Shape::rows; ++b)
#pragma unroll
      for (int c = 0; c < Shape::packs; ++c)
        of[b][c] = first + b < end ? load_columns<by_packs>(from + (first + b) * width, first_column<T>(c), width)
                                   : row_pack<T>{};
  }
};

/// Arguments that every norm kernel reads: the rows x and the weight.
template <class T>
struct norm_call {
  const T *x, *weight;
  uint64_t rows;
  unsigned width;
  float shift;  // number added to each weight

  /// Returns the factor of a column with the weight `w`.
  [[nodiscard]] __device__ float factor(T w) const { return shift == 0.0F ? as_float(w) : as_float(w) + shift; }
};

/// Computes the forward pass of layer norm if `centred`, else of RMS norm, which subtracts no mean (0 is used) and adds
/// no bias.
template <bool centred, class Shape, bool by_packs, class T>
__global__ void __launch_bounds__(most_row_threads)
    row_norm_kernel(norm_call<T> in, const T* bias, float epsilon, T* y, float* means, float* rstds) {
  constexpr int n = access_elements<T>, rows = Shape::rows;
  __shared__ warp_numbers<float, rows> of_warps[2];
  const auto width = static_cast<float>(in.width);
  unsigned turn = 0;
  for (uint64_t first = uint64_t{blockIdx.x} * rows; first < in.rows; first += uint64_t{gridDim.x} * rows) {
    row_batch<Shape, T> x;
    x.template load<by_packs>(in.x, first, in.rows, in.width);
    float mean[rows] = {};
    if constexpr (centred) {
#pragma unroll
      for (int b = 0; b < rows; ++b)
#pragma unroll
        for (int c = 0; c < Shape::packs; ++c) {
          float terms[n];
#pragma unroll
          for (int k = 0; k < n; ++k) terms[k] = as_float(x.of[b][c].of[k]);
          mean[b] += sum_of_pack(terms);
        }
      sum_row<float, rows>(mean, of_warps[turn]);
      turn ^= 1;
#pragma unroll
      for (int b = 0; b < rows; ++b) mean[b] /= width;
    }
    float rstd[rows] = {};
#pragma unroll
    for (int b = 0; b < rows; ++b)
#pragma unroll
      for (int c = 0; c < Shape::packs; ++c) {
        const unsigned column = first_column<T>(c);
        float terms[n];
#pragma unroll
        for (int k = 0; k < n; ++k) {
          const float v = as_float(x.of[b][c].of[k]) - mean[b];
          terms[k] = v * v;
        }
        // Columns beyond the row's end were loaded as zeros, which would add to the sum of squared differences from
        // the mean.
        if (centred && column + n > in.width)
#pragma unroll
          for (int k = 0; k < n; ++k)
            if (column + k >= in.width) terms[k] = 0;
        rstd[b] += sum_of_pack(terms);
      }
    sum_row<float, rows>(rstd, of_warps[turn]);
    turn ^= 1;
#pragma unroll
    for (int b = 0; b < rows; ++b) rstd[b] = 1.0F / std::sqrt(rstd[b] / width + epsilon);
#pragma unroll
    for (int c = 0; c < Shape::packs; ++c) {
      const unsigned column = first_column<T>(c);
      const auto w = load_columns<by_packs>(in.weight, column, in.width);
      row_pack<T> shift{};
      if constexpr (centred) shift = load_columns<by_packs>(bias, column, in.width);
#pragma unroll
      for (int b = 0; b < rows; ++b) {
        if (first + b >= in.rows) continue;
        row_pack<T> out;
#pragma unroll
        for (int k = 0; k < n; ++k) {
          float v = as_float(x.of[b][c].of[k]);
          if constexpr (centred) v -= mean[b];
          v = v * rstd[b] * in.factor(w.of[k]);
          if constexpr (centred) v += as_float(shift.of[k]);
          out.of[k] = as_stored<T>(v);
        }
        store_columns<by_packs>(out, y + (first + b) * in.width, column, in.width);
      }
    }
#pragma unroll
    for (int b = 0; b < rows; ++b)
      if (threadIdx.x == 0 && first + b < in.rows) {
        if constexpr (centred) means[first + b] = mean[b];
        rstds[first + b] = rstd[b];
      }
  }
}

/// Sums of the gradients of weight and bias over each run of rows, `width` numbers for each run.
struct run_sums {
  float *weight, *bias;
};

/// Computes the backward pass of layer norm if `centred`, else of RMS norm: a block processes a run of rows, in order;
/// each thread adds up the gradients of weight and bias for its own columns.
template <bool centred, class Shape, bool by_packs, class T>
__global__ void __launch_bounds__(most_row_threads)
    row_norm_backward_kernel(norm_call<T> in, const T* dy, const T* past, const float* means, const float* rstds, T* dx,
                             run_sums sums) {
  constexpr int n = access_elements<T>, rows = Shape::rows, packs = Shape::packs;
  constexpr uint64_t grain = Shape::adds_columns ? run_rows : rows;
  constexpr int row_sums = centred ? 2 * rows : rows;
  __shared__ warp_numbers<float, row_sums> of_warps[2];
  const float share = 1.0F / static_cast<float>(in.width);
  unsigned turn = 0;
  for (uint64_t run = blockIdx.x; run * grain < in.rows; run += gridDim.x) {
    const uint64_t end = (run + 1) * grain < in.rows ? (run + 1) * grain : in.rows;
    float dweight[packs][n] = {}, dbias[packs][n] = {};
    for (uint64_t first = run * grain; first < end; first += rows) {
      row_batch<Shape, T> x, g;
      x.template load<by_packs>(in.x, first, end, in.width);
      g.template load<by_packs>(dy, first, end, in.width);
      float mean[rows] = {}, rstd[rows] = {};
#pragma unroll
      for (int b = 0; b < rows; ++b)
        if (first + b < end) {
          if constexpr (centred) mean[b] = means[first + b];
          rstd[b] = rstds[first + b];
        }
      // Computes the sums over each row of h * normed and of h, where h = dy * factor and normed = (x - mean) * rstd.
      float of_row[row_sums] = {};
#pragma unroll
      for (int c = 0; c < packs; ++c) {
        const auto w = load_columns<by_packs>(in.weight, first_column<T>(c), in.width);
#pragma unroll
        for (int b = 0; b < rows; ++b) {
          float slopes[n], levels[n];
#pragma unroll
          for (int k = 0; k < n; ++k) {
            float normed = as_float(x.of[b][c].of[k]);
            if constexpr (centred) normed -= mean[b];
            normed *= rstd[b];
            const float gradient = as_float(g.of[b][c].of[k]);
            if constexpr (Shape::adds_columns) {
              dweight[c][k] += gradient * normed;
              if constexpr (centred) dbias[c][k] += gradient;
            }
            levels[k] = gradient * in.factor(w.of[k]);
            slopes[k] = levels[k] * normed;
          }
          of_row[b] += sum_of_pack(slopes);
          if constexpr (centred) of_row[rows + b] += sum_of_pack(levels);
        }
      }
      sum_row<float, row_sums>(of_row, of_warps[turn]);
      turn ^= 1;
#pragma unroll
      for (int c = 0; c < packs; ++c) {
        const unsigned column = first_column<T>(c);
        const auto w = load_columns<by_packs>(in.weight, column, in.width);
#pragma unroll
        for (int b = 0; b < rows; ++b) {
          if (first + b >= end) continue;
          const uint64_t at = (first + b) * in.width;
          row_pack<T> beside{};
          if (past != nullptr) beside = load_columns<by_packs>(past + at, column, in.width);
          const float slope = of_row[b] * share;
          row_pack<T> out;
#pragma unroll
          for (int k = 0; k < n; ++k) {
            float normed = as_float(x.of[b][c].of[k]);
            if constexpr (centred) normed -= mean[b];
            normed *= rstd[b];
            float v = as_float(g.of[b][c].of[k]) * in.factor(w.of[k]) - normed * slope;
            if constexpr (centred) v -= of_row[rows + b] * share;
            v *= rstd[b];
            if (past != nullptr) v += as_float(beside.of[k]);
            out.of[k] = as_stored<T>(v);
          }
          store_columns<by_packs>(out, dx + at, column, in.width);
        }
      }
    }
    if constexpr (Shape::adds_columns) {
#pragma unroll
      for (int c = 0; c < packs; ++c)
#pragma unroll
        for (int k = 0; k < n; ++k)
          if (const unsigned column = first_column<T>(c) + k; column < in.width) {
            sums.weight[run * in.width + column] = dweight[c][k];
            if constexpr (centred) sums.bias[run * in.width + column] = dbias[c][k];
          }
    }
  }
}

/// The contribution of a row to the weight's gradient, dy * (x - mean) * rstd, for column_runs_kernel: used for rows
/// that are too wide to add it up together with dx.
template <bool centred, class T>
struct weight_terms {
  const T *x, *dy;
  const float *means, *rstds;
  uint64_t width;

  template <int N>
  __device__ void at(uint64_t row, uint64_t column, float (&out)[N]) const {
    const auto values = load_pack<N>(x + row * width + column), gradient = load_pack<N>(dy + row * width + column);
#pragma unroll
    for (int k = 0; k < N; ++k) {
      float normed = widen(values.of[k]);
      if constexpr (centred) normed -= means[row];
      out[k] = widen(gradient.of[k]) * (normed * rstds[row]);
    }
  }
};

template <bool centred>
core::result<void> forward(const char* kernel, const norm_input& in, const std::byte* bias, double epsilon,
                           std::byte* y, const norm_rows& kept, stream on) {
  if (auto fits = in_fp32(kernel, in.type); !fits) return fits;
  if (in.rows == 0 || in.width == 0) return {};
  return with_fp32_dtype(in.type, [&]<class T>(std::type_identity<T>) {
    constexpr int n = access_elements<T>;
    const norm_call<T> call{.x = reinterpret_cast<const T*>(in.x),
                            .weight = reinterpret_cast<const T*>(in.weight),
                            .rows = in.rows,
                            .width = static_cast<unsigned>(in.width),
                            .shift = in.shift};
    const auto* const b = reinterpret_cast<const T*>(bias);
    auto* const out = reinterpret_cast<T*>(y);
    auto* const means = reinterpret_cast<float*>(kept.mean);
    auto* const rstds = reinterpret_cast<float*>(kept.rstd);
    return with_shape<T>(kernel, in.width, [&]<class Shape>(Shape) {
      const unsigned threads = row_threads<T>(in.width, Shape::packs);
      const auto blocks = static_cast<unsigned>(std::min(core::div_up(in.rows, Shape::rows), max_blocks));
      const auto e = static_cast<float>(epsilon);
      if (in.width % n == 0 && allow_packs<n>(call.x, call.weight, b, out))
        row_norm_kernel<centred, Shape, true><<<blocks, threads, 0, on>>>(call, b, e, out, means, rstds);
      else
        row_norm_kernel<centred, Shape, false><<<blocks, threads, 0, on>>>(call, b, e, out, means, rstds);
      return launched(kernel);
    });
  });
}

/// Computes dx for rows of type T, and writes the weight and bias gradients of each run of rows to `sums`.
template <bool centred, class T>
core::result<void> backward_by_runs(const char* kernel, const norm_input& in, const norm_gradient& gradient,
                                    const norm_rows& kept, std::byte* dx, const run_sums& sums, stream on) {
  constexpr int n = access_elements<T>;
  const norm_call<T> call{.x = reinterpret_cast<const T*>(in.x),
                          .weight = reinterpret_cast<const T*>(in.weight),
                          .rows = in.rows,
                          .width = static_cast<unsigned>(in.width),
                          .shift = in.shift};
  const auto* const dy = reinterpret_cast<const T*>(gradient.dy);
  const auto* const past = reinterpret_cast<const T*>(gradient.past);
  auto* const out = reinterpret_cast<T*>(dx);
  const auto* const means = reinterpret_cast<const float*>(kept.mean);
  const auto* const rstds = reinterpret_cast<const float*>(kept.rstd);
  return with_shape<T>(kernel, in.width, [&]<class Shape>(Shape) {
    const bool packs = in.width % n == 0 && allow_packs<n>(call.x, call.weight, dy, past, out);
    const uint64_t runs = runs_of(in.rows);
    // Wide rows: the gradients of weight and bias are summed before dx is computed, because dx may overwrite dy or x.
    if constexpr (!Shape::adds_columns) {
      const weight_terms<centred, T> terms{.x = call.x, .dy = dy, .means = means, .rstds = rstds, .width = in.width};
      const stored_rows<T> of_dy{dy, in.width};
      const unsigned blocks = column_blocks(runs * core::div_up(in.width, packs ? n : 1));
      if (packs) {
        column_runs_kernel<n><<<blocks, column_threads, 0, on>>>(terms, in.rows, in.width, sums.weight, in.width);
        if (centred)
          column_runs_kernel<n><<<blocks, column_threads, 0, on>>>(of_dy, in.rows, in.width, sums.bias, in.width);
      } else {
        column_runs_kernel<1><<<blocks, column_threads, 0, on>>>(terms, in.rows, in.width, sums.weight, in.width);
        if (centred)
          column_runs_kernel<1><<<blocks, column_threads, 0, on>>>(of_dy, in.rows, in.width, sums.bias, in.width);
      }
    }
    const unsigned threads = row_threads<T>(in.width, Shape::packs);
    const auto blocks = static_cast<unsigned>(std::min(Shape::adds_columns ? runs : in.rows, max_blocks));
    if (packs)
      row_norm_backward_kernel<centred, Shape, true>
          <<<blocks, threads, 0, on>>>(call, dy, past, means, rstds, out, sums);
    else
      row_norm_backward_kernel<centred, Shape, false>
          <<<blocks, threads, 0, on>>>(call, dy, past, means, rstds, out, sums);
    return launched(kernel);
  });
}

template <bool centred>
core::result<void> backward(const char* kernel, const norm_input& in, const norm_gradient& gradient,
                            const norm_rows& kept, std::byte* dx, std::byte* dweight, std::byte* dbias, stream on) {
  if (auto fits = in_fp32(kernel, in.type); !fits) return fits;
  if (in.width == 0) return {};
  const uint64_t runs = runs_of(in.rows);
  auto* const weight = reinterpret_cast<float*>(dweight);
  auto* const bias = reinterpret_cast<float*>(dbias);
  const auto by_runs = [&](const run_sums& sums) {
    if (in.rows == 0) return core::result<void>();
    return with_fp32_dtype(in.type, [&]<class T>(std::type_identity<T>) {
      return backward_by_runs<centred, T>(kernel, in, gradient, kept, dx, sums, on);
    });
  };
  if (runs == 1) return by_runs({.weight = weight, .bias = bias});
  auto room = scratch::take((centred ? 2 : 1) * std::max<uint64_t>(runs, 1) * in.width * sizeof(float), on, kernel);
  if (!room) return core::fail(room.error());
  const run_sums sums{.weight = room->template as<float>(), .bias = room->template as<float>() + runs * in.width};
  if (auto done = by_runs(sums); !done) return done;
  add_runs_kernel<<<column_blocks(in.width), column_threads, 0, on>>>(sums.weight, runs, in.width, in.width, weight);
  if (centred)
    add_runs_kernel<<<column_blocks(in.width), column_threads, 0, on>>>(sums.bias, runs, in.width, in.width, bias);
  return launched(kernel);
}

}  // namespace

core::result<void> layer_norm(const norm_input& in, const std::byte* bias, double epsilon, std::byte* y,
                              const norm_rows& kept, stream on) {
  return forward<true>("layer_norm", in, bias, epsilon, y, kept, on);
}

core::result<void> layer_norm_backward(const norm_input& in, const norm_gradient& gradient, const norm_rows& kept,
                                       std::byte* dx, std::byte* dweight, std::byte* dbias, stream on) {
  return backward<true>("layer_norm_backward", in, gradient, kept, dx, dweight, dbias, on);
}

core::result<void> rms_norm(const norm_input& in, double epsilon, std::byte* y, const norm_rows& kept, stream on) {
  return forward<false>("rms_norm", in, nullptr, epsilon, y, kept, on);
}

core::result<void> rms_norm_backward(const norm_input& in, const norm_gradient& gradient, const norm_rows& kept,
                                     std::byte* dx, std::byte* dweight, stream on) {
  return backward<false>("rms_norm_backward", in, gradient, kept, dx, dweight, nullptr, on);
}

}  // namespace troupe::kernels::cuda
