// Self-attention as an autograd function. Its node keeps the inputs for backward, and those results that the
// device's implementation requests: none on the CPU, which recomputes attention weights.
#include "models/layers/attention.hpp"

#include <ATen/ops/empty_like.h>

#include <array>
#include <atomic>
#include <utility>

#include "models/segment/batch_numbers.hpp"
#include "models/segment/function_node.hpp"
#include "models/segment/kept_tensor.hpp"
#include "models/segment/torch_device.hpp"

namespace troupe::models {
namespace {

/// The functions of one of the CPU's two implementations (fused or composed), which keep no results for backward.
template <auto Forward, auto Backward>
constexpr attention_operations keeping_nothing{
    [](const attention_work& work, const attention_tensors& in, attention_results& /*kept*/) {
      return Forward(work, in);
    },
    [](const attention_work& work, const attention_tensors& in, const attention_results& /*kept*/, const at::Tensor& dy,
       const attention_tensors& out) { Backward(work, in, dy, out); }};
constexpr attention_operations fused = keeping_nothing<&fused_forward, &fused_backward>;
constexpr attention_operations composed = keeping_nothing<&composed_forward, &composed_backward>;

const attention_operations& by_type(const at::Tensor& x) { return x.scalar_type() == at::kDouble ? composed : fused; }

constexpr attention_operations on_cpu{
    [](const attention_work& work, const attention_tensors& in, attention_results& kept) {
      return by_type(in.queries).forward(work, in, kept);
    },
    [](const attention_work& work, const attention_tensors& in, const attention_results& kept, const at::Tensor& dy,
       const attention_tensors& out) { by_type(in.queries).backward(work, in, kept, dy, out); }};

constinit std::array<std::atomic<const attention_operations*>, device::device_kinds> tables{&on_cpu, nullptr};

/// Returns views of the inputs: a single tensor has queries, keys and values of each token next to each other; of two
/// tensors the first has queries, the second keys and values.
attention_tensors parts_of(const std::vector<at::Tensor>& held, const attention_shape& s) {
  if (held.size() == 2) return {held[0], held[1]};
  const int64_t queries = s.heads * s.head_width;
  return {held[0].narrow(2, 0, queries), held[0].narrow(2, queries, 2 * s.kv_heads * s.head_width)};
}

struct attention_node final : function_node {
  attention_work work;
  const attention_operations* by = nullptr;
  std::vector<kept_tensor> kept;
  attention_results results;

  gradient_list apply(gradient_list&& gradients) override {
    gradient_list out;
    std::vector<at::Tensor> held;
    for (kept_tensor& x : kept) held.push_back(x.take());
    for (const at::Tensor& x : held) out.push_back(at::empty_like(x));
    by->backward(work, parts_of(held, work.shape), results, gradients[0].contiguous(), parts_of(out, work.shape));
    return out;
  }
  void release_variables() override {
    kept.clear();
    results = {};
  }
  [[nodiscard]] std::string name() const override { return "attention"; }
};

at::Tensor attention_by(const attention_operations& by, const segment_scope& scope, attention_work work,
                        const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> held;
  attention_results results;
  at::Tensor y;
  {
    const below_autograd plain;
    for (const at::Tensor& x : inputs) held.push_back(x.detach().contiguous());
    y = by.forward(work, parts_of(held, work.shape), results);
    // A detached tensor, because the autograd history of y refers to this node.
    if (results.y.is_same(y)) results.y = y.detach();
  }
  if (!wants_node(inputs.front(), inputs.back())) return y;
  auto node = std::make_shared<attention_node>();
  node->work = std::move(work);
  node->by = &by;
  node->results = std::move(results);
  for (size_t k = 0; k < inputs.size(); ++k) node->kept.emplace_back(scope, inputs[k], std::move(held[k]));
  if (inputs.size() == 1)
    attach({&y}, std::move(node), scope, {inputs[0]});
  else
    attach({&y}, std::move(node), scope, {inputs[0], inputs[1]});
  return y;
}

attention_work work_of(const segment_scope& scope, const attention_shape& shape, float dropout,
                       const core::column_set& queries, int64_t columns) {
  attention_work out{shape, dropout_masks(scope, dropout_site::attention_weights, dropout),
                     scope.batch().document_start, queries, columns};
  if (const batch_numbers* there = scope.batch().numbers; there != nullptr) {
    out.boundaries = there->boundaries;
    out.longest_document = there->longest_document;
  }
  return out;
}

at::Tensor of_packed(const attention_operations& by, const segment_scope& scope, const at::Tensor& qkv,
                     const attention_shape& shape, float dropout) {
  return attention_by(by, scope, work_of(scope, shape, dropout, {{{0, qkv.size(1)}}}, qkv.size(1)), {qkv});
}

}  // namespace

const attention_operations& attention_for(const at::Tensor& t) {
  const attention_operations* const found = tables[static_cast<size_t>(device_of(t.device()).kind)];
  TORCH_CHECK(found != nullptr, "no library of this program provides attention on ", t.device());
  return *found;
}

void provide(device::device_kind kind, const attention_operations& table) {
  tables[static_cast<size_t>(kind)] = &table;
}

at::Tensor self_attention(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                          float dropout) {
  return of_packed(attention_for(qkv), scope, qkv, shape, dropout);
}

at::Tensor self_attention(const segment_scope& scope, const at::Tensor& queries, const at::Tensor& keys,
                          const attention_shape& shape, float dropout) {
  return attention_by(attention_for(queries), scope, work_of(scope, shape, dropout, scope.columns(), keys.size(1)),
                      {queries, keys});
}

at::Tensor composed_attention(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                              float dropout) {
  return of_packed(composed, scope, qkv, shape, dropout);
}

at::Tensor fused_attention(const segment_scope& scope, const at::Tensor& qkv, const attention_shape& shape,
                           float dropout) {
  return of_packed(fused, scope, qkv, shape, dropout);
}

}  // namespace troupe::models
