#include "models/cuda/attention.hpp"

#include <ATen/ops/_efficient_attention_backward.h>
#include <ATen/ops/_efficient_attention_forward.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/empty.h>

#include <optional>
#include <tuple>

namespace troupe::models::cuda {
namespace {

constexpr int64_t flash_width_step = 8, flash_width_max = 256;
/// Argument of LibTorch's memory-efficient kernel that selects a causal mask aligned at each sequence's first token.
constexpr int64_t causal_from_top_left = 1;

/// Views of queries (B, T, heads, D), keys and values (B, T, kv_heads, D) in the packed tensors, without a copy.
struct parts {
  at::Tensor q, k, v;

  parts(const attention_work& work, const attention_tensors& x) {
    const attention_shape& s = work.shape;
    const int64_t rows = x.queries.size(0), columns = x.queries.size(1), keys = s.kv_heads * s.head_width;
    q = heads_of(x.queries, rows, columns, s.heads, s.head_width);
    k = heads_of(x.keys.narrow(2, 0, keys), rows, columns, s.kv_heads, s.head_width);
    v = heads_of(x.keys.narrow(2, keys, keys), rows, columns, s.kv_heads, s.head_width);
  }

 private:
  static at::Tensor heads_of(const at::Tensor& x, int64_t rows, int64_t columns, int64_t heads, int64_t width) {
    return x.as_strided({rows, columns, heads, width}, {x.stride(0), x.stride(1), width, 1});
  }
};

/// Returns a view (B x T, heads, D) of `x` (B, T, heads, D), in which the tokens of all rows follow each other.
at::Tensor run_of(const at::Tensor& x) {
  return x.as_strided({x.size(0) * x.size(1), x.size(2), x.size(3)}, {x.stride(1), x.stride(2), x.stride(3)});
}

/// Returns `x` in the shape that flash attention needs: (B x T, heads, D) if the sequences are documents, whose
/// boundaries are passed separately, else (B, T, heads, D).
at::Tensor sequences(const attention_work& work, const at::Tensor& x) {
  return work.boundaries.defined() ? run_of(x) : x;
}

/// Returns `x` in the shape that the memory-efficient kernel needs: (1, B x T, heads, D) if the sequences are
/// documents, whose boundaries are passed separately, else (B, T, heads, D).
at::Tensor rows_of(const attention_work& work, const at::Tensor& x) {
  return work.boundaries.defined() ? run_of(x).unsqueeze(0) : x;
}

void check(const attention_work& work, const attention_tensors& in) {
  TORCH_CHECK(in.queries.scalar_type() != at::kDouble, "attention on a CUDA device takes fp32, bf16 or f16, got fp64");
  TORCH_CHECK(!work.masks.active(), "attention on a CUDA device does not support dropout; set model.attn_pdrop: 0");
  TORCH_CHECK(work.shape.options.soft_cap == 0, "attention on a CUDA device does not cap its scores");
  TORCH_CHECK(work.shape.options.causal, "attention on a CUDA device is causal");
  TORCH_CHECK(work.queries.count() == work.columns, "attention on a CUDA device takes all columns of its rows");
  TORCH_CHECK(work.starts.empty() || work.boundaries.defined(), "document boundaries that are not on the device");
}

bool flashes(const attention_work& work, const at::Tensor& q) {
  return q.scalar_type() != at::kFloat && work.shape.head_width % flash_width_step == 0 &&
         work.shape.head_width <= flash_width_max;
}

double scale_of(const attention_work& work) { return work.shape.options.scale_of(work.shape.head_width); }

/// Returns the window as the memory-efficient kernel takes it: the number of keys that a query sees, its own included.
std::optional<int64_t> window_of(const attention_work& work) {
  return work.shape.options.window > 0 ? std::optional(work.shape.options.window) : std::nullopt;
}

/// Return the window as flash attention takes it: the number of keys that a query sees before its own one and after it.
std::optional<int64_t> before_of(const attention_work& work) {
  return work.shape.options.window > 0 ? std::optional(work.shape.options.window - 1) : std::nullopt;
}
std::optional<int64_t> after_of(const attention_work& work) {
  return work.shape.options.window > 0 ? std::optional<int64_t>(0) : std::nullopt;
}

std::optional<at::Tensor> boundaries_of(const attention_work& work) {
  return work.boundaries.defined() ? std::optional(work.boundaries) : std::nullopt;
}

int64_t longest_of(const attention_work& work) {
  return work.boundaries.defined() ? work.longest_document : work.columns;
}

/// Repeats each head of keys or values, (.., kv_heads, D) -> (.., heads, D), because the memory-efficient kernel needs
/// as many of them as there are query heads.
at::Tensor repeated(const attention_work& work, const at::Tensor& x) {
  const int64_t group = work.shape.heads / work.shape.kv_heads;
  if (group == 1) return x;
  return x.unsqueeze(3)
      .expand({x.size(0), x.size(1), work.shape.kv_heads, group, work.shape.head_width})
      .reshape({x.size(0), x.size(1), work.shape.heads, work.shape.head_width});
}

/// Sets `to`, the gradient of keys or values (.., kv_heads, D), to the sum of `gradient` over the query heads that
/// share a key head.
void add_up(const attention_work& work, const at::Tensor& gradient, const at::Tensor& to) {
  const int64_t group = work.shape.heads / work.shape.kv_heads;
  if (group == 1) {
    to.copy_(gradient.view(to.sizes()));
    return;
  }
  to.copy_(gradient.view({to.size(0), to.size(1), work.shape.kv_heads, group, work.shape.head_width})
               .sum({3}, /*keepdim=*/false, at::kFloat));
}

at::Tensor flash_forward(const attention_work& work, const parts& in, at::Tensor& log_sums) {
  auto made = at::_flash_attention_forward(sequences(work, in.q), sequences(work, in.k), sequences(work, in.v),
                                           boundaries_of(work), boundaries_of(work), longest_of(work), longest_of(work),
                                           /*dropout_p=*/0,
                                           /*is_causal=*/true, /*return_debug_mask=*/false, scale_of(work),
                                           before_of(work), after_of(work));
  log_sums = std::get<1>(made);
  return std::get<0>(made);
}

at::Tensor efficient_forward(const attention_work& work, const parts& in, at::Tensor& log_sums) {
  auto made = at::_efficient_attention_forward(
      rows_of(work, in.q), rows_of(work, repeated(work, in.k)), rows_of(work, repeated(work, in.v)), /*bias=*/{},
      boundaries_of(work), boundaries_of(work), longest_of(work), longest_of(work), /*dropout_p=*/0,
      causal_from_top_left,
      /*compute_log_sumexp=*/true, scale_of(work), /*seqlen_k=*/{}, window_of(work));
  log_sums = std::get<1>(made);
  return std::get<0>(made);
}

at::Tensor forward(const attention_work& work, const attention_tensors& in, attention_results& kept) {
  check(work, in);
  const parts x(work, in);
  const at::Tensor y =
      flashes(work, x.q) ? flash_forward(work, x, kept.log_sums) : efficient_forward(work, x, kept.log_sums);
  kept.y = y.contiguous().view({in.queries.size(0), in.queries.size(1), work.shape.heads * work.shape.head_width});
  return kept.y;
}

void backward(const attention_work& work, const attention_tensors& in, const attention_results& kept,
              const at::Tensor& dy, const attention_tensors& out) {
  const parts x(work, in), gradients(work, out);
  const auto by_head = [&](const at::Tensor& t) { return t.view(x.q.sizes()); };
  if (flashes(work, x.q)) {
    const at::Tensor none = at::empty({0}, x.q.options().dtype(at::kLong));
    const auto [dq, dk, dv] = at::_flash_attention_backward(
        sequences(work, by_head(dy)), sequences(work, x.q), sequences(work, x.k), sequences(work, x.v),
        sequences(work, by_head(kept.y)), kept.log_sums, work.boundaries, work.boundaries, longest_of(work),
        longest_of(work), /*dropout_p=*/0, /*is_causal=*/true, none, none, scale_of(work), before_of(work),
        after_of(work));
    gradients.q.copy_(dq.view(gradients.q.sizes()));
    gradients.k.copy_(dk.view(gradients.k.sizes()));
    gradients.v.copy_(dv.view(gradients.v.sizes()));
    return;
  }
  const at::Tensor none = at::empty({}, x.q.options().dtype(at::kLong));
  const auto [dq, dk, dv, unused] = at::_efficient_attention_backward(
      rows_of(work, by_head(dy)), rows_of(work, x.q), rows_of(work, repeated(work, x.k)),
      rows_of(work, repeated(work, x.v)), /*bias=*/{}, rows_of(work, by_head(kept.y)), boundaries_of(work),
      boundaries_of(work), longest_of(work), longest_of(work), kept.log_sums, /*dropout_p=*/0, none, none,
      causal_from_top_left, /*bias_requires_grad=*/false, scale_of(work), /*num_splits_key=*/{}, window_of(work));
  gradients.q.copy_(dq.view(gradients.q.sizes()));
  add_up(work, dk, gradients.k);
  add_up(work, dv, gradients.v);
}

}  // namespace

const attention_operations attention{&forward, &backward};

}  // namespace troupe::models::cuda
