// The CUDA versions of the CPU kernels: the same formulas from the same headers, the same bits (except norms of rows
// and losses, whose order of additions is documented at their functions), and the same arguments plus the stream.
// Every pointer into data is device memory; calls return before the work is done. A returned error is an error of the
// launch; a later failure on the device is reported at the stream's next synchronisation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/error.hpp"
#include "kernels/compress/fake_quantise.hpp"
#include "kernels/layers/dropout.hpp"
#include "kernels/layers/rotary.hpp"
#include "kernels/layers/row_norm.hpp"
#include "kernels/optimizer/optimizer.hpp"
#include "kernels/sums/grouped_sums.hpp"
#include "kernels/sums/norm.hpp"
#include "kernels/sums/reduce.hpp"

struct CUstream_st;

namespace troupe::kernels::cuda {

using stream = CUstream_st*;  ///< CUDA's cudaStream_t

/// Largest number of contributions to one sum: pointers to all of them are part of the launch's arguments.
inline constexpr size_t max_sum_ranks = 256;

/// The CUDA version of kernels/base/cast.hpp, with the same bits.
core::result<void> cast(const std::byte* in, core::dtype from, std::byte* out, core::dtype to, uint64_t count,
                        stream on);

/// The CUDA version of kernels/sums/reduce.hpp, with the same bits. The span of pointers is host memory; more than
/// `max_sum_ranks` inputs are an error.
core::result<void> sum_in_rank_order(std::span<const std::byte* const> inputs, std::byte* output, uint64_t count,
                                     const reduce_options& options, stream on);

/// The CUDA version of kernels/sums/norm.hpp, with the same bits. The span is host memory; all its entries are summed
/// by as few launches as their arguments permit.
core::result<void> block_square_sums(std::span<const squared_elements> all, core::dtype type, stream on);

/// The CUDA versions of kernels/sums/column_sums.hpp and kernels/sums/grouped_sums.hpp, for f32, bf16 and f16, with the
/// CPU's bits. The arrays in `row_groups` are device memory.
core::result<void> column_sums(const std::byte* x, core::dtype type, uint64_t rows, uint64_t width, uint64_t row_stride,
                               std::byte* out, core::dtype out_type, stream on);
core::result<void> grouped_sums(const std::byte* rows, core::dtype type, uint64_t width, const row_groups& groups,
                                std::byte* sums, stream on);

/// The CUDA versions of kernels/layers/row_norm.hpp, for f32, bf16 and f16, with the arguments of the table
/// (kernels/operations.hpp). The order of a sum over a row depends on the row's width and type alone, and differs from
/// the CPU's, so bits differ; dweight and dbias have the CPU's bits if mean and rstd have.
core::result<void> layer_norm(const norm_input& in, const std::byte* bias, double epsilon, std::byte* y,
                              const norm_rows& kept, stream on);
core::result<void> layer_norm_backward(const norm_input& in, const norm_gradient& gradient, const norm_rows& kept,
                                       std::byte* dx, std::byte* dweight, std::byte* dbias, stream on);
core::result<void> rms_norm(const norm_input& in, double epsilon, std::byte* y, const norm_rows& kept, stream on);
core::result<void> rms_norm_backward(const norm_input& in, const norm_gradient& gradient, const norm_rows& kept,
                                     std::byte* dx, std::byte* dweight, stream on);

/// The CUDA versions of kernels/layers/cross_entropy.hpp, for f32, bf16 and f16, with the arguments of the table
/// (kernels/operations.hpp); `loss` and `gradient` are device memory, too. The order of a row's sums and the
/// exponential differ from the CPU's, so bits differ.
core::result<void> cross_entropy(const std::byte* logits, core::dtype type, uint64_t rows, uint64_t width,
                                 const int64_t* targets, std::byte* log_sums, std::byte* loss, stream on);
core::result<void> cross_entropy_backward(std::byte* logits, core::dtype type, uint64_t rows, uint64_t width,
                                          uint64_t stride, const int64_t* targets, const std::byte* log_sums,
                                          const std::byte* gradient, uint64_t mean_rows, stream on);
core::result<void> cross_entropy_part(const std::byte* logits, core::dtype type, uint64_t rows, uint64_t width,
                                      uint64_t stride, const int64_t* targets, std::byte* statistics, stream on);
core::result<void> joined_cross_entropy(const std::byte* statistics, core::dtype type, uint64_t ranks,
                                        uint64_t rank_stride, uint64_t rows, std::byte* log_sums, std::byte* loss,
                                        stream on);

/// The CUDA versions of kernels/layers/elementwise.hpp, for f32, bf16 and f16, with the CPU's bits. `y` of the backward
/// functions may be null.
core::result<void> gelu_tanh(const std::byte* x, std::byte* y, core::dtype type, uint64_t count, stream on);
core::result<void> gelu_tanh_backward(const std::byte* x, const std::byte* dy, std::byte* dx, core::dtype type,
                                      uint64_t count, std::byte* y, stream on);
core::result<void> silu_gated(const std::byte* gate, const std::byte* up, std::byte* y, core::dtype type,
                              uint64_t count, stream on);
core::result<void> silu_gated_backward(const std::byte* gate, const std::byte* up, const std::byte* dy,
                                       std::byte* dgate, std::byte* dup, core::dtype type, uint64_t count, std::byte* y,
                                       stream on);
core::result<void> scale_kept(std::byte* x, core::dtype type, const uint8_t* keep, double factor, uint64_t count,
                              stream on);

/// The CUDA versions of kernels/layers/dropout.hpp, for f32, bf16 and f16, with the CPU's bits.
core::result<void> drop(std::byte* x, core::dtype type, uint64_t count, const dropout_key& key, uint64_t first_position,
                        stream on);
core::result<void> draw(uint8_t* keep, uint64_t count, const dropout_key& key, uint64_t first_position, stream on);

/// The CUDA version of kernels/layers/rotary.hpp, for f32, bf16 and f16. The arrays of `table` are device memory; a
/// token must have fewer than 2^31 elements in its heads.
core::result<void> turn_tokens(const token_heads& x, const rotary_table& table, stream on);

/// The CUDA versions of kernels/compress/fake_quantise.hpp, for f32, bf16 and f16. `ranges` is device memory, with one
/// range per group, or one for all groups; if it is empty, each group's own range is computed. A group has fewer than
/// 2^36 elements.
core::result<void> fake_quantise(const grouped_values& x, const quantiser& q, std::byte* y,
                                 std::span<const value_range<double>> ranges, const stochastic_rounding* rounding,
                                 stream on);
core::result<void> group_ranges(const grouped_values& x, std::span<value_range<double>> out, stream on);

/// The CUDA version of kernels/optimizer/optimizer.hpp for AdamW, Adagrad, Lion and SGD. The span and its pieces are
/// host memory, while their weights, moments and gradients are device memory; pieces that have the same optimizer and
/// types are updated by one launch. LAMB and Muon are an error (bug).
core::result<void> update(std::span<const piece_update<float>> all, stream on);

/// The CUDA versions of kernels/optimizer/lamb.hpp. The two spans of sums are device memory, one number for each full
/// or partial block of `core::partition_grain` elements.
core::result<void> prepare(const lamb_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                           std::span<double> weight_sums, std::span<double> update_sums, stream on);
core::result<void> apply(const lamb_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                         double trust_ratio, stream on);

/// The CUDA versions of the functions of kernels/optimizer/muon.hpp, with the same bits.
core::result<void> prepare(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                           float* direction, stream on);
core::result<void> apply(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                         const float* orthogonal, stream on);

}  // namespace troupe::kernels::cuda
