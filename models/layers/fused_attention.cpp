// Computes attention with the attention kernel of the tensors' device, one document at a time.
#include <ATen/ops/empty.h>

#include <algorithm>

#include "models/layers/attention.hpp"
#include "models/segment/operations.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::models {
namespace {

/// The queries of one document in one row (sample) that this rank computes.
struct document_queries {
  // Row of the batch; first column of the document; number of keys, from that column on, that the queries may see.
  int64_t row = 0, first = 0, seen = 0;
  std::vector<kernels::query_run> runs;
};

std::vector<document_queries> documents_of(const attention_work& work, int64_t rows) {
  std::vector<document_queries> out;
  for (int64_t row = 0; row < rows; ++row)
    for (const query_block& b : work.blocks(row, work.columns)) {
      if (out.empty() || out.back().row != row || out.back().first != b.document)
        out.push_back({row, b.document, 0, {}});
      document_queries& d = out.back();
      d.seen = b.seen(work.shape.options.causal);
      d.runs.push_back(
          {static_cast<uint64_t>(b.first - b.document), static_cast<uint64_t>(b.count), static_cast<uint64_t>(b.own)});
    }
  return out;
}

class kernel_call {
 public:
  kernel_call(const attention_work& work, const attention_tensors& in) : work_(work), in_(in) {}

  [[nodiscard]] kernels::attention_sizes sizes(int64_t tokens) const {
    const attention_shape& s = work_.shape;
    return {.type = core_dtype(in_.queries.scalar_type()),
            .tokens = static_cast<uint64_t>(tokens),
            .heads = static_cast<uint64_t>(s.heads),
            .kv_heads = static_cast<uint64_t>(s.kv_heads),
            .head_width = static_cast<uint64_t>(s.head_width),
            .window = static_cast<uint64_t>(s.options.window),
            .scale = s.options.scale,
            .soft_cap = s.options.soft_cap,
            .causal = s.options.causal};
  }
  [[nodiscard]] kernels::attention_masks masks(const document_queries& d) const {
    return {work_.masks.key(static_cast<uint64_t>(d.row)), static_cast<uint64_t>(work_.columns),
            static_cast<uint64_t>(d.first), static_cast<uint64_t>(work_.shape.first_head)};
  }
  /// Allocates scratch memory for the longest document; `elements` returns the size that the kernel needs.
  [[nodiscard]] at::Tensor scratch(const std::vector<document_queries>& documents, auto&& elements) const {
    int64_t longest = 0;
    for (const document_queries& d : documents) longest = std::max(longest, d.seen);
    return at::empty({static_cast<int64_t>(elements(sizes(longest)))}, in_.queries.options().dtype(at::kFloat));
  }

 private:
  const attention_work& work_;
  const attention_tensors& in_;
};

/// Returns the address of the elements of the token in row `row`, column `column`.
std::byte* token(const at::Tensor& x, int64_t row, int64_t column) {
  return bytes_in(x) + static_cast<size_t>(row * x.stride(0) + column * x.stride(1)) * x.element_size();
}

template <class Byte>
kernels::attention_operands<Byte> operands_of(const attention_tensors& x, const document_queries& d) {
  return {token(x.queries, d.row, 0), token(x.keys, d.row, d.first), static_cast<uint64_t>(x.queries.stride(1)),
          static_cast<uint64_t>(x.keys.stride(1))};
}

std::span<float> elements_of(const at::Tensor& scratch) {
  return {scratch.mutable_data_ptr<float>(), static_cast<size_t>(scratch.numel())};
}

}  // namespace

at::Tensor fused_forward(const attention_work& work, const attention_tensors& in) {
  const kernel_call call(work, in);
  const auto documents = documents_of(work, in.queries.size(0));
  at::Tensor y = at::empty({in.queries.size(0), in.queries.size(1), work.shape.heads * work.shape.head_width},
                           in.queries.options().requires_grad(false));
  const at::Tensor scratch = call.scratch(documents, kernels::causal_attention_scratch);
  for (const document_queries& d : documents)
    kernels_for(y).partial_attention(call.sizes(d.seen), call.masks(d), operands_of<const std::byte>(in, d), d.runs,
                                     token(y, d.row, 0), elements_of(scratch));
  return y;
}

void fused_backward(const attention_work& work, const attention_tensors& in, const at::Tensor& dy,
                    const attention_tensors& out) {
  const kernel_call call(work, in);
  const auto documents = documents_of(work, in.queries.size(0));
  // Gradients of keys that no query of this rank sees are 0.
  if (work.queries.count() != work.columns) out.keys.zero_();
  const at::Tensor scratch = call.scratch(documents, kernels::causal_attention_backward_scratch);
  for (const document_queries& d : documents)
    kernels_for(dy).partial_attention_backward(call.sizes(d.seen), call.masks(d), operands_of<const std::byte>(in, d),
                                               d.runs, token(dy, d.row, 0), operands_of<std::byte>(out, d),
                                               elements_of(scratch));
}

}  // namespace troupe::models
