#include "kernels/layers/cross_entropy.hpp"

#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/exponential.cuh"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/rows.cuh"

namespace troupe::kernels::cuda {
namespace {

/// Number of logits that a thread processes at once: it finds the largest of them, then adds their exponentials.
constexpr int logits_at_once = 16;
template <class T>
constexpr int packs_at_once = logits_at_once / access_elements<T>;

constexpr unsigned loss_threads = 256;  ///< largest number of threads per row of logits
constexpr unsigned mean_threads = most_row_threads;

template <class T>
unsigned threads_for(uint64_t width) {
  return std::min(row_threads<T>(width, packs_at_once<T>), loss_threads);
}
unsigned blocks_of(uint64_t rows) { return static_cast<unsigned>(std::clamp<uint64_t>(rows, 1, max_blocks)); }

constexpr float lowest = -std::numeric_limits<float>::infinity();

/// A row of logits that may begin at any address: with an odd vocabulary size, seven of eight 16-bit rows do not begin
/// at a multiple of 16 bytes.
template <class T>
struct logit_row {
  static constexpr unsigned n = access_elements<T>;
  const T* x;
  unsigned width;

  /// Returns how many bytes the row's start is beyond a 16-byte boundary.
  __device__ unsigned beyond() const { return reinterpret_cast<uintptr_t>(x) % access_bytes; }

  /// Loads the 16 bytes of logits number `p` of the row, with -infinity for columns beyond the row's end. Reads nothing
  /// outside of the row.
  __device__ row_pack<T> load(unsigned p) const {
    const unsigned first = p * n, before = beyond() / sizeof(T);
    if (before == 0 && first + n <= width) return load_pack<n>(x + first);
    if (before != 0 && p > 0 && first - before + 2 * n <= width) return load_across(p);
    row_pack<T> out;
#pragma unroll
    for (unsigned k = 0; k < n; ++k) out.of[k] = first + k < width ? x[first + k] : as_stored<T>(lowest);
    return out;
  }

 private:
  struct word {
    uint32_t of[4];
  };

  /// Loads 16 bytes of logits that cross a 16-byte boundary: from the two aligned words of 16 bytes around them, both
  /// of which are inside the row.
  __device__ row_pack<T> load_across(unsigned p) const {
    const auto* const words =
        reinterpret_cast<const uint32_t*>(reinterpret_cast<uintptr_t>(x) - beyond()) + p * uint64_t{4};
    const auto low = load_pack<4>(words), high = load_pack<4>(words + 4);
    const uint32_t all[8] = {low.of[0],  low.of[1],  low.of[2],  low.of[3],
                             high.of[0], high.of[1], high.of[2], high.of[3]};
    const unsigned bits = beyond() % sizeof(uint32_t) * 8;
    word out;
    const auto take = [&]<int first>(cuda::width<first>) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const uint64_t both = all[first + k] | uint64_t{all[first + k + 1]} << 32;
        out.of[k] = static_cast<uint32_t>(both >> bits);
      }
    };
    switch (beyond() / sizeof(uint32_t)) {
      case 0:
        take(cuda::width<0>{});
        break;
      case 1:
        take(cuda::width<1>{});
        break;
      case 2:
        take(cuda::width<2>{});
        break;
      default:
        take(cuda::width<3>{});
    }
    return std::bit_cast<row_pack<T>>(out);
  }
};

/// Returns the largest element of `x`, and overwrites the array. A NaN is ignored here: its exponential makes the row's
/// sum NaN.
template <int N>
__device__ float largest_of(float (&x)[N]) {
#pragma unroll
  for (int half = N / 2; half > 0; half /= 2)
#pragma unroll
    for (int k = 0; k < half; ++k) x[k] = fmaxf(x[k], x[k + half]);
  return x[0];
}

/// The running state of a log-sum-exp over a row: the largest logit so far, and the sum of e^(logit - largest).
struct running_powers {
  float largest = lowest, sum = 0;

  /// Returns the number that is subtracted from logits before the exponential: the largest logit; 0 if all logits are
  /// -infinity, whose exponentials are then 0.
  __device__ float base() const { return largest == lowest ? 0 : largest; }

  template <int Packs, class T>
  __device__ void add(const row_pack<T> (&x)[Packs]) {
    constexpr int n = access_elements<T>;
    float most[Packs];
#pragma unroll
    for (int u = 0; u < Packs; ++u) {
      float v[n];
#pragma unroll
      for (int k = 0; k < n; ++k) v[k] = as_float(x[u].of[k]);
      most[u] = largest_of(v);
    }
    if (const float found = largest_of(most); found > largest) {
      sum *= fused_exponential(largest - found);
      largest = found;
    }
    const float from = base();
#pragma unroll
    for (int u = 0; u < Packs; ++u) {
      float powers[n];
#pragma unroll
      for (int k = 0; k < n; ++k) powers[k] = exponential_or_least(as_float(x[u].of[k]) - from);
      sum += sum_of_pack(powers);
    }
  }
};

/// Computes each row's log-sum-exp in one pass over the row, one block of threads per row. Writes log_sums if
/// `statistics` is null; otherwise row_statistics numbers for each row, which ranks with other columns of the row need.
template <class T>
__global__ void __launch_bounds__(loss_threads)
    row_powers_kernel(const T* logits, uint64_t rows, unsigned width, uint64_t row_stride, const int64_t* targets,
                      float* log_sums, float* statistics) {
  constexpr int at_once = packs_at_once<T>, n = access_elements<T>;
  __shared__ warp_numbers<float, 1> largest_of_warps, sum_of_warps;
  const unsigned packs = (width + n - 1) / n, step = blockDim.x;
  for (uint64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    const logit_row<T> row{.x = logits + r * row_stride, .width = width};
    running_powers mine;
    unsigned p = threadIdx.x;
// Not unrolled: other warps hide the load latency of this one, and more code would not fit the instruction cache.
#pragma unroll 1
    for (; p + (at_once - 1) * step < packs; p += at_once * step) {
      row_pack<T> x[at_once];
#pragma unroll
      for (int u = 0; u < at_once; ++u) x[u] = row.load(p + u * step);
      mine.add(x);
    }
    for (; p < packs; p += step) {
      const row_pack<T> x[1] = {row.load(p)};
      mine.add(x);
    }
    float largest[1] = {mine.largest};
    join_row<float, 1>(largest, largest_of_warps, [](float a, float b) { return fmaxf(a, b); });
    const running_powers whole{.largest = largest[0]};
    float sum[1] = {mine.sum * fused_exponential(mine.largest - whole.base())};
    sum_row<float, 1>(sum, sum_of_warps);
    if (threadIdx.x != 0) continue;
    if (statistics == nullptr) {
      log_sums[r] = static_cast<float>(double{whole.largest} + natural_log(sum[0]));
    } else {
      const auto target = static_cast<uint64_t>(targets[r]);  // unsigned: a negative target is larger than every column
      statistics[r * row_statistics] = whole.largest;
      statistics[r * row_statistics + 1] = sum[0];
      statistics[r * row_statistics + 2] = target < width ? as_float(row.x[target]) : 0.0F;
    }
  }
}

/// Computes log_sums of rows whose columns are spread over several ranks, from the statistics of all ranks, added in
/// rank order.
__global__ void __launch_bounds__(threads_per_block)
    join_powers_kernel(const float* statistics, uint64_t ranks, uint64_t rank_stride, uint64_t rows, float* log_sums) {
  for (uint64_t r = first_index(); r < rows; r += stride()) {
    running_powers whole;
    const float* const first = statistics + r * row_statistics;
    for (uint64_t rank = 0; rank < ranks; ++rank) whole.largest = fmaxf(whole.largest, first[rank * rank_stride]);
    for (uint64_t rank = 0; rank < ranks; ++rank) {
      const float* const of = first + rank * rank_stride;
      whole.sum += of[1] * fused_exponential(of[0] - whole.base());
    }
    log_sums[r] = static_cast<float>(double{whole.largest} + natural_log(whole.sum));
  }
}

/// Reads the logit of each row's target token from the logits, all of whose columns are on this rank.
template <class T>
struct target_logits {
  const T* logits;
  uint64_t width;
  const int64_t* targets;
  __device__ float at(uint64_t row) const {
    return as_float(logits[row * width + static_cast<uint64_t>(targets[row])]);
  }
};
struct joined_logits {
  const float* statistics;
  uint64_t ranks, rank_stride;
  __device__ float at(uint64_t row) const {
    float out = 0;
    for (uint64_t rank = 0; rank < ranks; ++rank) out += statistics[rank * rank_stride + row * row_statistics + 2];
    return out;
  }
};

/// Computes the mean loss in one block of threads: each thread adds every mean_threads-th row's loss in fp64, then the
/// threads' sums are added in the order of sum_row().
template <class Logits>
__global__ void __launch_bounds__(mean_threads)
    mean_loss_kernel(Logits at_target, const float* log_sums, uint64_t rows, float* loss) {
  __shared__ warp_numbers<double, 1> of_warps;
  double sum[1] = {};
#pragma unroll 8
  for (uint64_t r = threadIdx.x; r < rows; r += mean_threads) sum[0] += double{log_sums[r] - at_target.at(r)};
  sum_row<double, 1>(sum, of_warps);
  if (threadIdx.x == 0) *loss = static_cast<float>(sum[0] / static_cast<double>(rows));
}

/// Numbers that the gradient of one row's logits depends on: (e^(logit - log_sum) - (1 at the target)) * factor.
/// `target` is the number of columns, outside of the row, if another rank has the target's column.
struct row_gradient {
  float log_sum, factor;
  uint64_t target;

  template <class T>
  __device__ float power(T logit) const {
    return fused_exponential(as_float(logit) - log_sum);
  }
  template <class T>
  __device__ T at(T logit, uint64_t column) const {
    const float p = power(logit);
    return as_stored<T>((column == target ? p - 1.0F : p) * factor);
  }
  template <class T, int N>
  __device__ pack<T, N> at(const pack<T, N>& logits, uint64_t first) const {
    pack<T, N> out;
#pragma unroll
    for (int k = 0; k < N; ++k) out.of[k] = as_stored<T>(power(logits.of[k]) * factor);
    if (target - first < uint64_t{N})
#pragma unroll
      for (int k = 0; k < N; ++k)
        if (first + k == target) out.of[k] = at(logits.of[k], target);
    return out;
  }
};

/// Replaces logits by their gradient, one block of threads per row. No sum is formed, so the elements before the first
/// 16-byte boundary are processed one at a time and the others in packs from that boundary on.
template <class T>
__global__ void __launch_bounds__(loss_threads)
    loss_gradient_kernel(T* logits, uint64_t rows, uint64_t width, uint64_t row_stride, const int64_t* targets,
                         const float* log_sums, const float* gradient, double mean_rows) {
  constexpr int n = access_elements<T>, at_once = packs_at_once<T>;
  const auto factor = static_cast<float>(double{*gradient} / mean_rows);
  for (uint64_t r = blockIdx.x; r < rows; r += gridDim.x) {
    T* const row = logits + r * row_stride;
    const auto target = static_cast<uint64_t>(targets[r]);  // unsigned: a negative target is larger than every column
    const row_gradient g{.log_sum = log_sums[r], .factor = factor, .target = target < width ? target : width};
    const uint64_t to_word =
        (access_bytes - reinterpret_cast<uintptr_t>(row) % access_bytes) % access_bytes / sizeof(T);
    const uint64_t head = to_word < width ? to_word : width, packs = (width - head) / n, step = blockDim.x;
    for (uint64_t i = threadIdx.x; i < head; i += step) row[i] = g.at(row[i], i);
    uint64_t p = threadIdx.x;
    for (; p + (at_once - 1) * step < packs; p += at_once * step) {
      row_pack<T> x[at_once];
#pragma unroll
      for (int u = 0; u < at_once; ++u) x[u] = load_pack<n>(row + head + (p + u * step) * n);
#pragma unroll
      for (int u = 0; u < at_once; ++u) {
        const uint64_t first = head + (p + u * step) * n;
        store_pack(g.at(x[u], first), row + first);
      }
    }
    for (; p < packs; p += step) {
      const uint64_t first = head + p * n;
      store_pack(g.at(load_pack<n>(row + first), first), row + first);
    }
    for (uint64_t i = head + packs * n + threadIdx.x; i < width; i += step) row[i] = g.at(row[i], i);
    for (uint64_t i = width + threadIdx.x; i < row_stride; i += step) row[i] = T{};
  }
}

}  // namespace

core::result<void> cross_entropy(const std::byte* logits, core::dtype type, uint64_t rows, uint64_t width,
                                 const int64_t* targets, std::byte* log_sums, std::byte* loss, stream on) {
  if (auto fits = in_fp32("cross_entropy", type); !fits) return fits;
  with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    const auto* const x = reinterpret_cast<const T*>(logits);
    auto* const sums = reinterpret_cast<float*>(log_sums);
    const unsigned threads = threads_for<T>(width);
    row_powers_kernel<<<blocks_of(rows), threads, 0, on>>>(x, rows, static_cast<unsigned>(width), width, targets, sums,
                                                           nullptr);
    const target_logits<T> of_targets{.logits = x, .width = width, .targets = targets};
    mean_loss_kernel<<<1, mean_threads, 0, on>>>(of_targets, sums, rows, reinterpret_cast<float*>(loss));
  });
  return launched("cross_entropy");
}

core::result<void> cross_entropy_backward(std::byte* logits, core::dtype type, uint64_t rows, uint64_t width,
                                          uint64_t stride, const int64_t* targets, const std::byte* log_sums,
                                          const std::byte* gradient, uint64_t mean_rows, stream on) {
  if (auto fits = in_fp32("cross_entropy_backward", type); !fits) return fits;
  if (rows == 0) return {};
  with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    const unsigned threads = threads_for<T>(width);
    loss_gradient_kernel<<<blocks_of(rows), threads, 0, on>>>(
        reinterpret_cast<T*>(logits), rows, width, stride, targets, reinterpret_cast<const float*>(log_sums),
        reinterpret_cast<const float*>(gradient), static_cast<double>(mean_rows));
  });
  return launched("cross_entropy_backward");
}

core::result<void> cross_entropy_part(const std::byte* logits, core::dtype type, uint64_t rows, uint64_t width,
                                      uint64_t stride, const int64_t* targets, std::byte* statistics, stream on) {
  if (auto fits = in_fp32("cross_entropy_part", type); !fits) return fits;
  if (rows == 0) return {};
  with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    const unsigned threads = threads_for<T>(width);
    row_powers_kernel<<<blocks_of(rows), threads, 0, on>>>(reinterpret_cast<const T*>(logits), rows,
                                                           static_cast<unsigned>(width), stride, targets, nullptr,
                                                           reinterpret_cast<float*>(statistics));
  });
  return launched("cross_entropy_part");
}

core::result<void> joined_cross_entropy(const std::byte* statistics, core::dtype type, uint64_t ranks,
                                        uint64_t rank_stride, uint64_t rows, std::byte* log_sums, std::byte* loss,
                                        stream on) {
  if (auto fits = in_fp32("joined_cross_entropy", type); !fits) return fits;
  const auto* const all = reinterpret_cast<const float*>(statistics);
  auto* const sums = reinterpret_cast<float*>(log_sums);
  join_powers_kernel<<<blocks_for(rows), threads_per_block, 0, on>>>(all, ranks, rank_stride, rows, sums);
  const joined_logits of_targets{.statistics = all, .ranks = ranks, .rank_stride = rank_stride};
  mean_loss_kernel<<<1, mean_threads, 0, on>>>(of_targets, sums, rows, reinterpret_cast<float*>(loss));
  return launched("joined_cross_entropy");
}

}  // namespace troupe::kernels::cuda
