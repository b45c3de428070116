// The CPU kernels' twins on a CUDA device: the same formulas from the same headers, the same bits (norms of rows and
// losses: bits of their own, see there), the same arguments and one more, the stream. Every pointer into data is device
// memory; calls return at once. An error is the launch's; what goes wrong on the device later shows at the stream's
// next synchronisation.
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

using stream = CUstream_st*;  ///< what CUDA calls cudaStream_t

/// The most contributions of one sum: their pointers travel in the launch's arguments.
inline constexpr size_t max_sum_ranks = 256;

/// kernels/base/cast.hpp
core::result<void> cast(const std::byte* in, core::dtype from, std::byte* out, core::dtype to, uint64_t count,
                        stream on);

/// kernels/sums/reduce.hpp. The span itself is host memory; more than `max_sum_ranks` inputs are refused.
core::result<void> sum_in_rank_order(std::span<const std::byte* const> inputs, std::byte* output, uint64_t count,
                                     const reduce_options& options, stream on);

/// kernels/sums/norm.hpp. The span itself is host memory; many runs are one launch.
core::result<void> block_square_sums(std::span<const squared_elements> all, core::dtype type, stream on);

/// kernels/sums/norm.hpp. Sets `*found`, in device memory, to 1 if an element is infinite or NaN; never clears it.
core::result<void> has_nonfinite(const std::byte* values, core::dtype type, uint64_t count, uint32_t* found, stream on);

/// kernels/sums/column_sums.hpp, kernels/sums/grouped_sums.hpp, of f32, bf16 and f16: the CPU's bits. The arrays of the
/// groups are device memory.
core::result<void> column_sums(const std::byte* x, core::dtype type, uint64_t rows, uint64_t width, uint64_t row_stride,
                               std::byte* out, core::dtype out_type, stream on);
core::result<void> grouped_sums(const std::byte* rows, core::dtype type, uint64_t width, const row_groups& groups,
                                std::byte* sums, stream on);

/// kernels/layers/row_norm.hpp, of f32, bf16 and f16, with the arguments of the table (kernels/operations.hpp). A sum
/// over a row has an order that its width and type alone decide, and is not the CPU's; dweight and dbias have the CPU's
/// bits where mean and rstd do.
core::result<void> layer_norm(const norm_input& in, const std::byte* bias, double epsilon, std::byte* y,
                              const norm_rows& kept, stream on);
core::result<void> layer_norm_backward(const norm_input& in, const norm_gradient& gradient, const norm_rows& kept,
                                       std::byte* dx, std::byte* dweight, std::byte* dbias, stream on);
core::result<void> rms_norm(const norm_input& in, double epsilon, std::byte* y, const norm_rows& kept, stream on);
core::result<void> rms_norm_backward(const norm_input& in, const norm_gradient& gradient, const norm_rows& kept,
                                     std::byte* dx, std::byte* dweight, stream on);

/// kernels/layers/cross_entropy.hpp, of f32, bf16 and f16, with the arguments of the table (kernels/operations.hpp):
/// `loss` and `gradient` are device memory, too. A row's order of sums and its power of e are not the CPU's.
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

/// kernels/layers/elementwise.hpp, of f32, bf16 and f16. `y` of the backward ones may be null.
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

/// kernels/layers/dropout.hpp, of f32, bf16 and f16.
core::result<void> drop(std::byte* x, core::dtype type, uint64_t count, const dropout_key& key, uint64_t first_position,
                        stream on);
core::result<void> draw(uint8_t* keep, uint64_t count, const dropout_key& key, uint64_t first_position, stream on);

/// kernels/layers/rotary.hpp, of f32, bf16 and f16. The table's arrays are device memory; a token has fewer than 2^31
/// elements of heads.
core::result<void> turn_tokens(const token_heads& x, const rotary_table& table, stream on);

/// kernels/compress/fake_quantise.hpp, of f32, bf16 and f16. `ranges` is device memory: of all groups, or one for all
/// of them; null: each group's own is measured. A group has fewer than 2^36 elements.
core::result<void> fake_quantise(const grouped_values& x, const quantiser& q, std::byte* y,
                                 std::span<const value_range<double>> ranges, const stochastic_rounding* rounding,
                                 stream on);
core::result<void> group_ranges(const grouped_values& x, std::span<value_range<double>> out, stream on);

/// kernels/compress/pruning.hpp. `keep` is device memory.
core::result<void> mask_elements(std::byte* x, core::dtype type, std::span<const uint8_t> keep, stream on);
core::result<void> mask_rows(std::byte* x, core::dtype type, uint64_t width, std::span<const uint8_t> keep, stream on);
core::result<void> mask_heads(std::byte* x, core::dtype type, uint64_t rows, uint64_t head_width,
                              std::span<const uint8_t> keep, stream on);

/// kernels/optimizer/optimizer.hpp: AdamW, Adagrad, Lion and SGD. The span and its pieces are host memory, what they
/// point to is not; pieces that share an optimizer and types are one launch. LAMB and Muon are refused (bug).
core::result<void> update(std::span<const piece_update<float>> all, stream on);

/// kernels/optimizer/lamb.hpp. The sums are device memory, one number per started block of `core::partition_grain`
/// elements.
core::result<void> prepare(const lamb_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                           std::span<double> weight_sums, std::span<double> update_sums, stream on);
core::result<void> apply(const lamb_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                         double trust_ratio, stream on);

/// kernels/optimizer/muon.hpp
core::result<void> prepare(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                           float* direction, stream on);
core::result<void> apply(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                         const float* orthogonal, stream on);

}  // namespace troupe::kernels::cuda
