// Finds the tensors and layers of modules. Apart from models/inject and fuse_activation.cpp, only this file of the
// library includes torch::nn.
#include "models/host/module_parts.hpp"

#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <type_traits>
#include <utility>

namespace troupe::models {
namespace {

namespace nn = torch::nn;
using core::layer_info;
using core::layer_kind;
using core::part_role;
using core::weight_layout;

void add(std::vector<named_tensor>& to, const std::string& name, const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  if (std::none_of(to.begin(), to.end(), [&](const named_tensor& x) { return x.tensor.is_same(tensor); }))
    to.push_back({name, tensor});
}

template <class... Types>
bool is_any(const nn::Module& m) {
  return ((dynamic_cast<const Types*>(&m) != nullptr) || ...);
}

uint64_t size(int64_t n) { return static_cast<uint64_t>(n); }

void set_widths(layer_info& l, layer_kind kind, int64_t in, int64_t out) {
  l.kind = kind;
  l.in = size(in);
  l.out = size(out);
}

bool describe_norm(const nn::Module& m, layer_info& l) {
  const auto of_width = [&](int64_t width) {
    set_widths(l, layer_kind::norm, width, width);
    return true;
  };
  if (const auto* n = dynamic_cast<const nn::LayerNormImpl*>(&m)) {
    const auto& shape = n->options.normalized_shape();
    return of_width(std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()));
  }
  if (const auto* n = dynamic_cast<const nn::GroupNormImpl*>(&m)) return of_width(n->options.num_channels());
  const auto channels = [&]<class... Norms>(std::type_identity<Norms>...) {
    const auto one = [&](const auto* n) { return n != nullptr && of_width(n->options.num_features()); };
    return (one(dynamic_cast<const Norms*>(&m)) || ...);
  };
  using std::type_identity;
  return channels(type_identity<nn::BatchNorm1dImpl>(), type_identity<nn::BatchNorm2dImpl>(),
                  type_identity<nn::BatchNorm3dImpl>(), type_identity<nn::InstanceNorm1dImpl>(),
                  type_identity<nn::InstanceNorm2dImpl>(), type_identity<nn::InstanceNorm3dImpl>());
}

bool describe_convolution(const nn::Module& m, layer_info& l) {
  const auto first = [&]<class... Convolutions>(weight_layout layout, std::type_identity<Convolutions>...) {
    const auto one = [&](const auto* c) {
      if (c == nullptr) return false;
      set_widths(l, layer_kind::convolution, c->options.in_channels(), c->options.out_channels());
      l.layout = layout;
      return true;
    };
    return (one(dynamic_cast<const Convolutions*>(&m)) || ...);
  };
  using std::type_identity;
  return first(weight_layout::out_in, type_identity<nn::Conv1dImpl>(), type_identity<nn::Conv2dImpl>(),
               type_identity<nn::Conv3dImpl>()) ||
         first(weight_layout::in_out, type_identity<nn::ConvTranspose1dImpl>(),
               type_identity<nn::ConvTranspose2dImpl>(), type_identity<nn::ConvTranspose3dImpl>());
}

/// Describes an attention module in `l`: queries, keys and values have one packed weight if their inputs have the same
/// width.
void describe_attention(const nn::MultiheadAttentionImpl& a, layer_info& l) {
  const int64_t width = a.options.embed_dim();
  set_widths(l, layer_kind::attention, width, width);
  l.heads = l.kv_heads = static_cast<uint32_t>(a.options.num_heads());
  if (!a._qkv_same_embed_dim) return;
  l.out = 3 * l.in;
  l.layout = weight_layout::out_in;
  for (const part_role role : {part_role::query, part_role::key, part_role::value}) l.parts.push_back({role, l.in});
}

bool is_activation(const nn::Module& m) {
  return is_any<nn::ELUImpl, nn::SELUImpl, nn::HardshrinkImpl, nn::HardtanhImpl, nn::LeakyReLUImpl, nn::LogSigmoidImpl,
                nn::PReLUImpl, nn::ReLUImpl, nn::ReLU6Impl, nn::RReLUImpl, nn::CELUImpl, nn::GLUImpl, nn::GELUImpl,
                nn::SiLUImpl, nn::MishImpl, nn::SigmoidImpl, nn::SoftplusImpl, nn::SoftshrinkImpl, nn::SoftsignImpl,
                nn::TanhImpl, nn::TanhshrinkImpl, nn::ThresholdImpl>(m);
}

/// Sets kind, widths, layout and heads of `l` by the type of `m`; returns false for an unknown type.
bool describe(const nn::Module& m, layer_info& l) {
  if (const auto* linear = dynamic_cast<const nn::LinearImpl*>(&m)) {
    set_widths(l, layer_kind::linear, linear->options.in_features(), linear->options.out_features());
    l.layout = weight_layout::out_in;
  } else if (const auto* rows = dynamic_cast<const nn::EmbeddingImpl*>(&m)) {
    set_widths(l, layer_kind::embedding, rows->options.num_embeddings(), rows->options.embedding_dim());
    l.layout = weight_layout::in_out;
  } else if (const auto* bag = dynamic_cast<const nn::EmbeddingBagImpl*>(&m)) {
    set_widths(l, layer_kind::embedding, bag->options.num_embeddings(), bag->options.embedding_dim());
    l.layout = weight_layout::in_out;
  } else if (const auto* attention = dynamic_cast<const nn::MultiheadAttentionImpl*>(&m)) {
    describe_attention(*attention, l);
  } else if (is_activation(m)) {
    l.kind = layer_kind::activation;
  } else {
    return describe_norm(m, l) || describe_convolution(m, l);
  }
  return true;
}

}  // namespace

module_parts parts_of(const module_unit& unit) {
  module_parts out;
  if (unit.module == nullptr) return out;
  for (const auto& p : unit.module->named_parameters()) add(out.parameters, p.key(), p.value());
  for (const auto& b : unit.module->named_buffers()) add(out.buffers, b.key(), b.value());
  return out;
}

std::vector<layer_info> layers_of(const module_unit& unit, uint32_t number,
                                  const std::function<uint32_t(const at::Tensor&)>& index_of) {
  std::vector<layer_info> out;
  if (unit.module == nullptr) return out;
  std::set<const nn::Module*> seen;
  // The attention module found last; its output projection comes next in the list.
  const nn::MultiheadAttentionImpl* attention = nullptr;
  for (const auto& [name, module] : unit.module->named_modules().pairs()) {
    if (!seen.insert(module.get()).second) continue;
    layer_info l;
    const bool known = describe(*module, l);
    for (const auto& [parameter, tensor] : module->named_parameters(/*recurse=*/false).pairs()) {
      const uint32_t q = l.parameters.emplace_back(index_of(tensor));
      if (parameter == "weight" || parameter == "in_proj_weight") l.weight = q;
      if (parameter == "bias" || parameter == "in_proj_bias") l.bias = q;
    }
    if (!known && l.parameters.empty()) continue;
    if (attention != nullptr && attention->out_proj.ptr() == module) l.heads = out.back().heads;
    if (const auto* a = dynamic_cast<const nn::MultiheadAttentionImpl*>(module.get())) attention = a;
    l.name = name.empty() ? unit.name : unit.name + "." + name;
    l.unit = number;
    out.push_back(std::move(l));
  }
  return out;
}

std::function<void(bool)> mode_switch(const module_model& model) {
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> modes;
  for (const auto& u : model.units)
    if (u.module != nullptr)
      for (const auto& m : u.module->modules()) modes.emplace_back(m, m->is_training());
  return [modes = std::move(modes)](bool training) {
    // Parents come before their children, because train() of a parent sets its children as well.
    for (const auto& [module, own] : modes) module->train(training && own);
  };
}

}  // namespace troupe::models
