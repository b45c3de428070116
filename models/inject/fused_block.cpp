// Computes a block of the host program as one segment of Troupe's layers, with an autograd node of its own around the
// segment's graph.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>
#include <utility>

#include "models/inject/block_parts.hpp"
#include "models/inject/layer_functions.hpp"
#include "models/layers/dropout.hpp"
#include "models/layers/functions.hpp"
#include "models/layers/rotary.hpp"
#include "models/segment/function_node.hpp"
#include "models/segment/segment_scope.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::models {
namespace {

namespace nn = torch::nn;

activation act_of(mlp_activation act) {
  switch (act) {
    case mlp_activation::gelu_tanh:
      return activation::gelu_tanh;
    case mlp_activation::gelu_exact:
      return activation::gelu_exact;
    case mlp_activation::silu:
      return activation::silu;
    case mlp_activation::relu:
      return activation::relu;
  }
  return activation::gelu_tanh;
}

/// The parameters of a block during one forward. A gradient is returned for each of them, in their order.
class read_weights {
 public:
  weight add(const at::Tensor& t) {
    all_.push_back(t);
    // The kernels of norms and biases read consecutive elements; products take any strides.
    const at::Tensor read = t.dim() == 1 ? t.detach().contiguous() : t.detach();
    return {static_cast<uint32_t>(all_.size() - 1), read, "of a host's block", t.requires_grad()};
  }
  row_norm norm(const host_norm& n) {
    row_norm out{add(n.layer != nullptr ? n.layer->weight : n.scale), std::nullopt, {n.epsilon}};
    if (n.layer != nullptr) out.bias = add(n.layer->bias);
    return out;
  }
  projection linear(const nn::LinearImpl& l) {
    projection out{.w = add(l.weight), .bias = {}, .layout = weight_layout::out_in};
    if (l.bias.defined()) out.bias = add(l.bias);
    return out;
  }
  [[nodiscard]] const std::vector<at::Tensor>& all() const { return all_; }

 private:
  std::vector<at::Tensor> all_;
};

struct read_half {  ///< the half of a block with its weights read for one forward
  std::optional<row_norm> norm;
  std::vector<projection> inputs;
  std::optional<projection> last;

  read_half(const block_half& half, read_weights& weights) {
    if (half.norm) norm = weights.norm(*half.norm);
    for (const linear_layer& l : half.inputs) inputs.push_back(weights.linear(*l));
    if (half.last != nullptr) last = weights.linear(*half.last);
  }
};

/// Stores the gradients of a block's parameters, in the order in which the parameters were read; undefined for a
/// parameter without one.
class read_gradients final : public gradient_sink {
 public:
  explicit read_gradients(const std::vector<at::Tensor>& weights) : weights_(weights), all_(weights.size()) {}
  gradient_target target(uint32_t parameter) override {
    at::Tensor& mine = all_.at(parameter);
    const bool again = mine.defined();
    if (!again) mine = at::empty(weights_[parameter].sizes(), weights_[parameter].options().requires_grad(false));
    return {.data = mine.mutable_data_ptr(), .type = core_dtype(mine.scalar_type()), .accumulate = again};
  }
  [[nodiscard]] std::vector<at::Tensor> take() { return std::move(all_); }

 private:
  const std::vector<at::Tensor>& weights_;
  std::vector<at::Tensor> all_;
};

/// The autograd node of a block: runs the backward of its segment, which is a graph of its own, and returns the
/// gradients of the input and the weights.
struct block_node final : function_node {
  std::unique_ptr<segment_run> run;
  std::vector<at::Tensor> weights;
  std::vector<std::pair<at::Tensor, int64_t>> versions;  // input and weights without history, and their versions
  std::shared_ptr<const rotary_angles> angles;           // cosines and sines that the run reads

  void watch(const at::Tensor& t) { versions.emplace_back(t.detach(), static_cast<int64_t>(t._version())); }

  gradient_list apply(gradient_list&& gradients) override {
    TORCH_CHECK(run != nullptr, "a second backward through a fused block of Troupe's; compute its forward again");
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "a fused block of Troupe's has no gradient of gradients; revert the injection for create_graph");
    for (const auto& [tensor, version] : versions)
      TORCH_CHECK(static_cast<int64_t>(tensor._version()) == version, "a tensor of shape ", tensor.sizes(),
                  " that a fused block of Troupe's needs for backward was changed in place after its forward");
    const auto done = std::exchange(run, nullptr);
    if (!gradients.front().defined()) return gradient_list(weights.size() + 1);
    read_gradients sink(weights);
    gradient_list out{done->backward(values(std::move(gradients.front())), sink).first()};
    for (at::Tensor& g : sink.take()) out.push_back(std::move(g));
    return out;
  }
  void release_variables() override {
    run.reset();
    weights.clear();
    versions.clear();
  }
  [[nodiscard]] std::string name() const override { return "fused_block"; }
};

/// Returns a table that has one unit of one segment, without parameters.
const core::model_table& one_segment() {
  static const core::model_table table = [] {
    core::model_table out;
    out.units.emplace_back();
    out.units.back().segments.emplace_back();
    return out;
  }();
  return table;
}

const parameter_binding& nothing_bound() {
  static const parameter_binding none(one_segment(), core::dtype::f32);
  return none;
}

class fused_block {  ///< computes a block's forward; copies share the host's layers
 public:
  explicit fused_block(block_parts parts) : parts_(std::move(parts)) {}

  at::Tensor operator()(const at::Tensor& given) {
    TORCH_CHECK(!under_autocast(given),
                "a fused block of Troupe's computes in the type of its weights, without autocast; convert the model, "
                "or revert the injection");
    const at::Tensor x = given.contiguous();
    read_weights weights;
    std::optional<read_half> attention, mlp;
    if (parts_.attention) attention.emplace(*parts_.attention, weights);
    if (parts_.mlp) mlp.emplace(*parts_.mlp, weights);
    for (const at::Tensor& w : weights.all())
      TORCH_CHECK(w.scalar_type() == x.scalar_type() && w.device() == x.device(),
                  "a fused block of Troupe's requires input in ", w.scalar_type(), " on ", w.device(),
                  ", as its weights, got ", x.scalar_type(), " on ", x.device());
    TORCH_CHECK(x.numel() > 0, "a fused block of Troupe's requires rows, got ", x.sizes());
    TORCH_CHECK(x.dim() >= 1 && (!attention || x.dim() == 3), "a fused block of Troupe's requires ",
                attention ? "samples of tokens, (B, T, C)" : "rows, (.., C)", ", got ", x.sizes());
    if (attention && parts_.rotary_base > 0) turn_up_to(x);
    const bool trains =
        at::GradMode::is_enabled() &&
        (x.requires_grad() || std::ranges::any_of(weights.all(), [](const auto& w) { return w.requires_grad(); }));
    micro_batch batch;
    batch.rows = x.dim() == 3 ? static_cast<uint64_t>(x.size(0)) : 1;
    batch.columns = static_cast<uint64_t>(x.numel() / x.size(-1)) / std::max<uint64_t>(batch.rows, 1);
    batch.training = trains;
    segment_scope scope(one_segment(), nothing_bound(), batch, 0, 0);
    auto run = run_segment(scope, values(x),
                           [&](const values& in) -> values { return compute(scope, in.first(), attention, mlp); });
    at::Tensor y = run->output();
    if (!trains) return y;
    // The segment keeps no handle of its output, because the output's history refers to the segment.
    run->release_outputs();
    auto node = std::make_shared<block_node>();
    node->run = std::move(run);
    node->weights = weights.all();
    node->angles = angles_;
    node->watch(x);
    for (const at::Tensor& w : weights.all()) node->watch(w);
    std::vector<at::Tensor> inputs{x};
    inputs.insert(inputs.end(), weights.all().begin(), weights.all().end());
    attach(y, std::move(node), inputs);
    return y;
  }

 private:
  /// Computes rotary angles for all tokens of `x`, if fewer exist.
  void turn_up_to(const at::Tensor& x) {
    const auto columns = static_cast<uint64_t>(x.size(1));
    if (angles_ != nullptr && columns <= columns_ && like_.scalar_type() == x.scalar_type() &&
        like_.device() == x.device())
      return;
    rotary_positions rope;
    rope.theta = parts_.rotary_base;
    columns_ = std::max(columns, columns_);
    like_ = at::empty({0}, x.options().requires_grad(false));
    angles_ = std::make_shared<const rotary_angles>(rope, static_cast<uint32_t>(parts_.head_width), columns_,
                                                    core_dtype(x.scalar_type()), x.device());
  }

  at::Tensor compute(const segment_scope& scope, const at::Tensor& x, std::optional<read_half>& attention,
                     std::optional<read_half>& mlp) const {
    if (parts_.order == norm_order::parallel && attention && mlp) return side_by_side(scope, x, *attention, *mlp);
    at::Tensor y = x;
    if (attention) y = half_of(scope, y, *attention, /*attends=*/true);
    if (mlp) y = half_of(scope, y, *mlp, /*attends=*/false);
    return y;
  }

  at::Tensor half_of(const segment_scope& scope, const at::Tensor& x, const read_half& half, bool attends) const {
    if (parts_.order != norm_order::after) {
      const auto [inner, past] = first_layers(scope, x, half.norm, half.inputs);
      at::Tensor y = rest_of(scope, inner, half, attends);
      return parts_.adds_input ? add_past(scope, past, std::move(y)) : y;
    }
    const auto [inner, past] = first_layers(scope, x, std::nullopt, half.inputs);
    at::Tensor y = rest_of(scope, inner, half, attends);
    if (parts_.adds_input) y = y.add(past);
    return half.norm ? normed_linear(scope, y, *half.norm, {}).y.front() : y;
  }

  at::Tensor side_by_side(const segment_scope& scope, const at::Tensor& x, const read_half& attention,
                          const read_half& mlp) const {
    std::vector<projection> inputs = attention.inputs;
    const auto own = static_cast<std::ptrdiff_t>(inputs.size());
    if (!mlp.norm) inputs.insert(inputs.end(), mlp.inputs.begin(), mlp.inputs.end());
    const auto [inner, past] = first_layers(scope, x, attention.norm, inputs);
    const std::vector<at::Tensor> of_attention(inner.begin(), inner.begin() + own);
    const std::vector<at::Tensor> of_mlp = mlp.norm ? first_layers(scope, x, mlp.norm, mlp.inputs).y
                                                    : std::vector<at::Tensor>(inner.begin() + own, inner.end());
    at::Tensor y = rest_of(scope, of_attention, attention, true).add(rest_of(scope, of_mlp, mlp, false));
    return parts_.adds_input ? add_past(scope, past, std::move(y)) : y;
  }

  static normed_outputs first_layers(const segment_scope& scope, const at::Tensor& x,
                                     const std::optional<row_norm>& norm, const std::vector<projection>& layers) {
    if (norm) return normed_linear(scope, x, *norm, layers);
    normed_outputs out;
    for (const projection& p : layers) out.y.push_back(linear(scope, x, p));
    out.past = x;
    return out;
  }

  [[nodiscard]] at::Tensor rest_of(const segment_scope& scope, const std::vector<at::Tensor>& inner,
                                   const read_half& half, bool attends) const {
    if (attends) return linear(scope, mixed(scope, inner), *half.last);
    if (!half.last) return inner.front();
    if (inner.size() == 2) return gated_linear(scope, inner[0], inner[1], act_of(parts_.act), *half.last);
    if (!parts_.packs_gate) return activated_linear(scope, inner.front(), act_of(parts_.act), *half.last);
    const auto two = inner.front().chunk(2, -1);
    return gated_linear(scope, two[0], two[1], act_of(parts_.act), *half.last);
  }

  /// Returns the output of attention from the outputs of its first layers, packed or one by one. Heads are counted from
  /// widths, so that layers which are cut over tensor-parallel ranks have the rank's heads.
  [[nodiscard]] at::Tensor mixed(const segment_scope& scope, const std::vector<at::Tensor>& inner) const {
    const int64_t wide = parts_.head_width, group = parts_.group;
    attention_shape shape;
    shape.head_width = wide;
    shape.kv_heads = inner.size() == 1 ? inner[0].size(-1) / wide / (group + 2) : inner[1].size(-1) / wide;
    shape.heads = shape.kv_heads * group;
    shape.options.causal = parts_.causal;
    int64_t width = 0;
    for (const at::Tensor& t : inner) width += t.size(-1);
    TORCH_CHECK(width == (shape.heads + 2 * shape.kv_heads) * wide, "attention of heads of ", wide,
                " elements requires a multiple of ", (group + 2) * wide, " for queries, keys and values, got ", width);
    const at::Tensor qkv = packed(scope, inner, shape);
    return self_attention(scope, qkv, shape, 0);
  }

  /// Returns queries, keys and values of each token next to each other; rotates queries and keys if the block does.
  [[nodiscard]] at::Tensor packed(const segment_scope& scope, const std::vector<at::Tensor>& inner,
                                  const attention_shape& shape) const {
    at::Tensor all = inner.front();
    if (inner.size() == 1 && parts_.packing == qkv_packing::by_head)
      all = all.reshape({all.size(0), all.size(1), shape.heads, 3, shape.head_width})
                .transpose(2, 3)
                .reshape({all.size(0), all.size(1), all.size(2)});
    const bool turns = parts_.rotary_base > 0;
    if (!turns) return inner.size() == 1 ? all : at::cat(inner, -1);
    std::vector<at::Tensor> apart = inner;
    if (inner.size() == 1) {
      const int64_t q = shape.heads * shape.head_width, kv = shape.kv_heads * shape.head_width;
      apart = all.split_with_sizes({q, kv, kv}, 2);
    }
    return rotate_and_pack(scope, apart[0], apart[1], apart[2], shape,
                           {&angles_->of(scope.batch().columns), shape.head_width});
  }

  block_parts parts_;
  std::shared_ptr<const rotary_angles> angles_;
  at::Tensor like_;  // a tensor of the type and on the device of the angles
  uint64_t columns_ = 0;
};

}  // namespace

tensor_function fused_forward(block_parts parts) { return fused_block(std::move(parts)); }

}  // namespace troupe::models
