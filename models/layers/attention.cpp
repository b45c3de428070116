// Causal self-attention of a batch, document by document, through the kernel of its device. Only the packed input is
// kept for backward, which recomputes the weights.
#include "models/layers/attention.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <vector>

#include "models/layers/bytes.hpp"
#include "models/layers/documents.hpp"
#include "models/layers/dropout.hpp"
#include "models/layers/function_node.hpp"
#include "models/layers/operations.hpp"
#include "models/layers/torch_dtype.hpp"

namespace troupe::models {
namespace {

/// State that forward and backward of a batch share.
struct attention_call {
  attention_shape shape;
  dropout_masks masks;
  std::span<const uint32_t> starts;  // of all rows; empty: each row is one document

  /// Calls `f(sizes, masks, row, column)` for every document, which begins there.
  template <class F>
  void for_each_document(const at::Tensor& qkv, F&& f) const {
    const int64_t columns = qkv.size(1);
    for (int64_t row = 0; row < qkv.size(0); ++row)
      for (const query_block& document : documents(row, columns)) {
        const kernels::attention_masks masked{masks.key(static_cast<uint64_t>(row)), static_cast<uint64_t>(columns),
                                              static_cast<uint64_t>(document.first),
                                              static_cast<uint64_t>(shape.first_head)};
        f(sizes(qkv, document.count), masked, row, document.first);
      }
  }

  /// For the longest document.
  template <class F>
  at::Tensor scratch(const at::Tensor& qkv, F&& elements) const {
    int64_t longest = 0;
    for (int64_t row = 0; row < qkv.size(0); ++row)
      for (const query_block& document : documents(row, qkv.size(1))) longest = std::max(longest, document.count);
    return at::empty({static_cast<int64_t>(elements(sizes(qkv, longest)))}, qkv.options().dtype(at::kFloat));
  }

 private:
  [[nodiscard]] std::vector<query_block> documents(int64_t row, int64_t columns) const {
    const auto n = static_cast<size_t>(columns);
    return query_blocks(columns, columns, starts.empty() ? starts : starts.subspan(static_cast<size_t>(row) * n, n));
  }
  [[nodiscard]] kernels::attention_sizes sizes(const at::Tensor& qkv, int64_t tokens) const {
    return {core_dtype(qkv.scalar_type()), static_cast<uint64_t>(tokens), static_cast<uint64_t>(shape.heads),
            static_cast<uint64_t>(shape.kv_heads), static_cast<uint64_t>(shape.head_width)};
  }
};

std::span<float> elements_of(const at::Tensor& scratch) {
  return {scratch.mutable_data_ptr<float>(), static_cast<size_t>(scratch.numel())};
}

/// Token (row, column) of a contiguous (B, T, width) tensor.
std::byte* token(const at::Tensor& x, int64_t row, int64_t column) {
  return bytes_in(x) + static_cast<size_t>(row * x.stride(0) + column * x.stride(1)) * x.element_size();
}

struct attention_node final : function_node {
  attention_call call;
  at::Tensor qkv;

  gradient_list apply(gradient_list&& gradients) override {
    const at::Tensor dy = gradients[0].contiguous();
    at::Tensor dqkv = at::empty_like(qkv);
    const at::Tensor scratch = call.scratch(qkv, kernels::causal_attention_backward_scratch);
    call.for_each_document(qkv, [&](const auto& sizes, const auto& masked, int64_t row, int64_t column) {
      kernels_for(qkv).causal_attention_backward(sizes, masked, token(qkv, row, column), token(dy, row, column),
                                                 token(dqkv, row, column), elements_of(scratch));
    });
    return {std::move(dqkv)};
  }
  void release_variables() override { qkv.reset(); }
  [[nodiscard]] std::string name() const override { return "fused_attention"; }
};

}  // namespace

at::Tensor causal_attention(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                            float dropout) {
  const bool composed = qkv.scalar_type() == at::kDouble;  // the kernel does not take fp64
  return composed ? composed_attention(scope, qkv, shape, dropout) : fused_attention(scope, qkv, shape, dropout);
}

at::Tensor fused_attention(const segment_scope& scope, const at::Tensor& input, const attention_shape& shape,
                           float dropout) {
  const dropout_masks masks(scope, dropout_site::attention_weights, dropout);
  const attention_call call{shape, masks, scope.batch().document_start};
  at::Tensor y, qkv;
  {
    const below_autograd plain;
    qkv = input.detach().contiguous();
    y = at::empty({qkv.size(0), qkv.size(1), shape.heads * shape.head_width}, qkv.options().requires_grad(false));
    const at::Tensor scratch = call.scratch(qkv, kernels::causal_attention_scratch);
    call.for_each_document(qkv, [&](const auto& sizes, const auto& masked, int64_t row, int64_t column) {
      kernels_for(qkv).causal_attention(sizes, masked, token(qkv, row, column), token(y, row, column),
                                        elements_of(scratch));
    });
  }
  if (!wants_node(input)) return y;
  auto node = std::make_shared<attention_node>();
  node->call = call;
  node->qkv = std::move(qkv);
  attach({&y}, std::move(node), scope, {input});
  return y;
}

}  // namespace troupe::models
