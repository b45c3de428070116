#include "kernels/cuda/table.hpp"

#include <stdexcept>
#include <string>

namespace troupe::kernels::cuda {
namespace {

constinit surroundings around{};

stream here() { return around.current(); }
void note(const core::result<void>& launched) { around.note(launched); }

/// Throws std::logic_error for an operation of the table that has no CUDA kernel. No run reaches it:
/// config/rules/device_rules.cpp refuses the settings that would call it with `device: cuda`.
[[noreturn]] void refuse(const char* entry) {
  throw std::logic_error(std::string("the kernels of CUDA devices have no ") + entry);
}

constexpr optimizer_operations<float> in_fp32{.update = [](auto... x) { note(cuda::update(x..., here())); },
                                              .update_keeping = [](auto...) { refuse("update_keeping"); },
                                              .take_back = [](auto...) { refuse("take_back"); },
                                              .average = [](auto...) { refuse("average"); },
                                              .prepare_lamb = [](auto... x) { note(prepare(x..., here())); },
                                              .apply_lamb = [](auto... x) { note(apply(x..., here())); },
                                              .prepare_muon = [](auto... x) { note(prepare(x..., here())); },
                                              .apply_muon = [](auto... x) { note(apply(x..., here())); },
                                              .orthogonalise = [](auto... x) { around.orthogonalise(x...); },
                                              .add_column_sums = [](auto...) { refuse("add_column_sums"); },
                                              .update_selected = [](auto...) { refuse("update_selected"); },
                                              .update_deferred = [](auto...) { refuse("update_deferred"); }};

constexpr optimizer_operations<double> in_fp64{.update = [](auto...) { refuse("in_fp64.update"); },
                                               .update_keeping = [](auto...) { refuse("in_fp64.update_keeping"); },
                                               .take_back = [](auto...) { refuse("in_fp64.take_back"); },
                                               .average = [](auto...) { refuse("in_fp64.average"); },
                                               .prepare_lamb = [](auto...) { refuse("in_fp64.prepare_lamb"); },
                                               .apply_lamb = [](auto...) { refuse("in_fp64.apply_lamb"); },
                                               .prepare_muon = [](auto...) { refuse("in_fp64.prepare_muon"); },
                                               .apply_muon = [](auto...) { refuse("in_fp64.apply_muon"); },
                                               .orthogonalise = [](auto...) { refuse("in_fp64.orthogonalise"); },
                                               .add_column_sums = [](auto...) { refuse("in_fp64.add_column_sums"); },
                                               .update_selected = [](auto...) { refuse("in_fp64.update_selected"); },
                                               .update_deferred = [](auto...) { refuse("in_fp64.update_deferred"); }};

constexpr operations on_cuda{
    .cast = [](auto... x) { note(cuda::cast(x..., here())); },
    .block_square_sums = [](auto... x) { note(cuda::block_square_sums(x..., here())); },
    .sum_in_rank_order = [](auto... x) { note(cuda::sum_in_rank_order(x..., here())); },
    .column_sums = [](auto... x) { note(cuda::column_sums(x..., here())); },
    .grouped_sums = [](auto... x) { note(cuda::grouped_sums(x..., here())); },
    .layer_norm = [](auto... x) { note(cuda::layer_norm(x..., here())); },
    .layer_norm_backward = [](auto... x) { note(cuda::layer_norm_backward(x..., here())); },
    .rms_norm = [](auto... x) { note(cuda::rms_norm(x..., here())); },
    .rms_norm_backward = [](auto... x) { note(cuda::rms_norm_backward(x..., here())); },
    .gelu_tanh = [](auto... x) { note(cuda::gelu_tanh(x..., here())); },
    .gelu_tanh_backward = [](auto... x) { note(cuda::gelu_tanh_backward(x..., here())); },
    .silu_gated = [](auto... x) { note(cuda::silu_gated(x..., here())); },
    .silu_gated_backward = [](auto... x) { note(cuda::silu_gated_backward(x..., here())); },
    .drop = [](auto... x) { note(cuda::drop(x..., here())); },
    .draw = [](auto... x) { note(cuda::draw(x..., here())); },
    .scale_kept = [](auto... x) { note(cuda::scale_kept(x..., here())); },
    .turn_tokens = [](auto... x) { note(cuda::turn_tokens(x..., here())); },
    .partial_attention = [](auto...) { refuse("partial_attention"); },
    .partial_attention_backward = [](auto...) { refuse("partial_attention_backward"); },
    .cross_entropy =
        [](const loss_form& form, const float* weights, auto... x) {
          if (!form.is_plain() || weights != nullptr) refuse("cross_entropy");
          note(cuda::cross_entropy(x..., here()));
        },
    .cross_entropy_backward =
        [](const loss_form& form, const float* weights, auto... x) {
          if (!form.is_plain() || weights != nullptr) refuse("cross_entropy_backward");
          note(cuda::cross_entropy_backward(x..., here()));
        },
    .cross_entropy_part =
        [](const loss_form& form, auto... x) {
          if (!form.is_plain()) refuse("cross_entropy_part");
          note(cuda::cross_entropy_part(x..., here()));
        },
    .joined_cross_entropy =
        [](const loss_form& form, const float* weights, auto... x) {
          if (!form.is_plain() || weights != nullptr) refuse("joined_cross_entropy");
          note(cuda::joined_cross_entropy(x..., here()));
        },
    .distil = [](auto...) { refuse("distil"); },
    .in_fp32 = in_fp32,
    .in_fp64 = in_fp64};

}  // namespace

const operations& table_with(const surroundings& s) {
  around = s;
  used_scratch() = s.scratch;
  return on_cuda;
}

}  // namespace troupe::kernels::cuda
