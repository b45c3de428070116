// The table of operations of the CPU. For fp64 it calls the scalar implementation of each kernel whose SIMD code
// computes in fp32 only.
#include "kernels/operations.hpp"

#include <array>
#include <atomic>

#include "kernels/base/cast.hpp"
#include "kernels/layers/cross_entropy.hpp"
#include "kernels/layers/elementwise.hpp"
#include "kernels/optimizer/average.hpp"
#include "kernels/optimizer/orthogonalise.hpp"
#include "kernels/optimizer/undo.hpp"
#include "kernels/sums/column_sums.hpp"

namespace troupe::kernels {
namespace {

template <class T>
T* as(std::byte* x) {
  return reinterpret_cast<T*>(x);
}
template <class T>
const T* as(const std::byte* x) {
  return reinterpret_cast<const T*>(x);
}

bool in_fp64(core::dtype type) { return type == core::dtype::f64; }

void layer_norm_any(const norm_input& in, const std::byte* bias, double epsilon, std::byte* y, const norm_rows& kept) {
  if (in_fp64(in.type))
    layer_norm_reference(in, bias, epsilon, y, as<double>(kept.mean), as<double>(kept.rstd));
  else
    layer_norm(in, bias, epsilon, y, as<float>(kept.mean), as<float>(kept.rstd));
}

void layer_norm_backward_any(const norm_input& in, const norm_gradient& gradient, const norm_rows& kept, std::byte* dx,
                             std::byte* dweight, std::byte* dbias) {
  if (in_fp64(in.type))
    layer_norm_backward_reference<double>(in, gradient, as<double>(kept.mean), as<double>(kept.rstd), dx,
                                          as<double>(dweight), as<double>(dbias));
  else
    layer_norm_backward(in, gradient, as<float>(kept.mean), as<float>(kept.rstd), dx, as<float>(dweight),
                        as<float>(dbias));
}

void rms_norm_any(const norm_input& in, double epsilon, std::byte* y, const norm_rows& kept) {
  if (in_fp64(in.type))
    rms_norm_reference(in, epsilon, y, as<double>(kept.rstd));
  else
    rms_norm(in, epsilon, y, as<float>(kept.rstd));
}

void rms_norm_backward_any(const norm_input& in, const norm_gradient& gradient, const norm_rows& kept, std::byte* dx,
                           std::byte* dweight) {
  if (in_fp64(in.type))
    rms_norm_backward_reference<double>(in, gradient, as<double>(kept.rstd), dx, as<double>(dweight));
  else
    rms_norm_backward(in, gradient, as<float>(kept.rstd), dx, as<float>(dweight));
}

/// Returns `masks` as a function that draws dropout masks, the form in which the CPU kernel needs them. The function
/// refers to `masks`, which must outlive it.
attention_dropout dropout_of(const attention_masks& masks) {
  attention_dropout out;
  out.factor = static_cast<float>(masks.key.factor());
  if (masks.key.active())
    out.draw = [&masks](std::span<uint8_t> keep, uint64_t head, uint64_t query, uint64_t key) {
      draw(keep.data(), keep.size(), masks.key,
           ((masks.first_head + head) * masks.columns + masks.first + query) * masks.columns + masks.first + key);
    };
  return out;
}

void attend(const attention_sizes& sizes, const attention_masks& masks, const attention_input& in,
            std::span<const query_run> runs, std::byte* y, std::span<float> scratch) {
  partial_attention(sizes, dropout_of(masks), in, runs, y, scratch);
}

void attend_backward(const attention_sizes& sizes, const attention_masks& masks, const attention_input& in,
                     std::span<const query_run> runs, const std::byte* dy, const attention_gradient& out,
                     std::span<float> scratch) {
  partial_attention_backward(sizes, dropout_of(masks), in, runs, dy, out, scratch);
}

void mean_loss(const loss_form& form, const float* weights, const std::byte* logits, core::dtype type, uint64_t rows,
               uint64_t width, const int64_t* targets, std::byte* log_sums, std::byte* loss) {
  const auto count = static_cast<double>(rows);
  if (in_fp64(type))
    *as<double>(loss) =
        cross_entropy_reference(logits, type, rows, width, targets, as<double>(log_sums), form, weights) / count;
  else
    *as<float>(loss) = static_cast<float>(
        cross_entropy(logits, type, rows, width, targets, as<float>(log_sums), form, weights) / count);
}

void mean_loss_backward(const loss_form& form, const float* weights, std::byte* logits, core::dtype type, uint64_t rows,
                        uint64_t width, uint64_t stride, const int64_t* targets, const std::byte* log_sums,
                        const std::byte* gradient, uint64_t mean_rows) {
  const auto count = static_cast<double>(mean_rows);
  if (in_fp64(type))
    cross_entropy_backward_reference(logits, type, rows, width, stride, targets, as<double>(log_sums),
                                     *as<double>(gradient) / count, form, weights);
  else
    cross_entropy_backward(logits, type, rows, width, stride, targets, as<float>(log_sums),
                           static_cast<double>(*as<float>(gradient)) / count, form, weights);
}

void part_of_loss(const loss_form& form, const std::byte* logits, core::dtype type, uint64_t rows, uint64_t width,
                  uint64_t stride, const int64_t* targets, std::byte* statistics) {
  if (in_fp64(type))
    cross_entropy_part_reference(logits, type, rows, width, stride, targets, as<double>(statistics), form);
  else
    cross_entropy_part(logits, type, rows, width, stride, targets, as<float>(statistics), form);
}

void joined_mean_loss(const loss_form& form, const float* weights, const std::byte* statistics, core::dtype type,
                      uint64_t ranks, uint64_t rank_stride, uint64_t rows, std::byte* log_sums, std::byte* loss) {
  const auto join = [&]<class Wide>(Wide* mean) {
    *mean = static_cast<Wide>(
        joined_cross_entropy(as<Wide>(statistics), ranks, rank_stride, rows, as<Wide>(log_sums), form, weights) /
        static_cast<double>(rows));
  };
  if (in_fp64(type))
    join(as<double>(loss));
  else
    join(as<float>(loss));
}

void distil_rows(std::byte* logits, const std::byte* teacher, core::dtype type, uint64_t rows, uint64_t width,
                 const int64_t* targets, const distillation_terms& terms, const std::byte* gradient, uint64_t mean_rows,
                 std::byte* losses) {
  const auto count = static_cast<double>(mean_rows);
  if (in_fp64(type))
    distil<double>(logits, teacher, type, rows, width, targets, terms, *as<double>(gradient) / count,
                   as<double>(losses));
  else
    distil<float>(logits, teacher, type, rows, width, targets, terms, static_cast<double>(*as<float>(gradient)) / count,
                  as<double>(losses));
}

template <class State>
void update_each(std::span<const piece_update<State>> all) {
  for (const auto& x : all) update_unchecked(x.options, x.step, x.piece);
}

void sum_squares_of_each(std::span<const squared_elements> all, core::dtype type) {
  for (const auto& x : all) block_square_sums(x.values, type, x.count, x.out);
}

template <class State>
constexpr optimizer_operations<State> updates_on_cpu{.update = update_each<State>,
                                                     .update_keeping = update_keeping,
                                                     .take_back = take_back,
                                                     .average = add_to_average,
                                                     .prepare_lamb = prepare_unchecked,
                                                     .apply_lamb = apply_unchecked,
                                                     .prepare_muon = prepare_unchecked,
                                                     .apply_muon = apply_unchecked,
                                                     .orthogonalise = orthogonalise_unchecked,
                                                     .add_column_sums = add_column_sums,
                                                     .update_selected = update_selected,
                                                     .update_deferred = update_deferred};

constexpr operations on_cpu{.cast = [](const std::byte* in, core::dtype from, std::byte* out, core::dtype to,
                                       uint64_t count) { cast(in, from, out, to, count); },
                            .block_square_sums = sum_squares_of_each,
                            .sum_in_rank_order = sum_in_rank_order,
                            .column_sums = column_sums,
                            .grouped_sums = grouped_sums,
                            .layer_norm = layer_norm_any,
                            .layer_norm_backward = layer_norm_backward_any,
                            .rms_norm = rms_norm_any,
                            .rms_norm_backward = rms_norm_backward_any,
                            .gelu_tanh = gelu_tanh,
                            .gelu_tanh_backward = gelu_tanh_backward,
                            .silu_gated = silu_gated,
                            .silu_gated_backward = silu_gated_backward,
                            .drop = drop,
                            .draw = draw,
                            .scale_kept = scale_kept,
                            .turn_tokens = turn_tokens,
                            .partial_attention = attend,
                            .partial_attention_backward = attend_backward,
                            .cross_entropy = mean_loss,
                            .cross_entropy_backward = mean_loss_backward,
                            .cross_entropy_part = part_of_loss,
                            .joined_cross_entropy = joined_mean_loss,
                            .distil = distil_rows,
                            .in_fp32 = updates_on_cpu<float>,
                            .in_fp64 = updates_on_cpu<double>};

constinit std::array<std::atomic<const operations*>, device::device_kinds> tables{&on_cpu, nullptr};

}  // namespace

const operations& operations_of(device::device_id device) { return *tables[static_cast<size_t>(device.kind)]; }

void provide(device::device_kind kind, const operations& table) { tables[static_cast<size_t>(kind)] = &table; }

}  // namespace troupe::kernels
