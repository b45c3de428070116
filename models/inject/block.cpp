#include "models/inject/block.hpp"

#include <fmt/format.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <optional>
#include <set>
#include <typeinfo>
#include <utility>

#include "models/inject/block_parts.hpp"

namespace troupe::models {
namespace {

namespace nn = torch::nn;

/// Returns the activation that a module of torch computes. Returns nullopt if Troupe does not have it, and for any
/// other class, also one derived from torch's, whose forward may differ.
std::optional<mlp_activation> activation_in(const nn::Module& m) {
  if (typeid(m) == typeid(nn::GELUImpl))
    return dynamic_cast<const nn::GELUImpl&>(m).options.approximate() == "tanh" ? mlp_activation::gelu_tanh
                                                                                : mlp_activation::gelu_exact;
  if (typeid(m) == typeid(nn::SiLUImpl)) return mlp_activation::silu;
  if (typeid(m) == typeid(nn::ReLUImpl)) return mlp_activation::relu;
  return std::nullopt;
}

/// Returns the probability with which a module of torch drops elements or channels; 0 if it is no dropout.
double drop_probability(const nn::Module& m) {
  if (const auto* d = dynamic_cast<const nn::DropoutImpl*>(&m); d != nullptr) return d->options.p();
  if (const auto* d = dynamic_cast<const nn::Dropout2dImpl*>(&m); d != nullptr) return d->options.p();
  if (const auto* d = dynamic_cast<const nn::Dropout3dImpl*>(&m); d != nullptr) return d->options.p();
  if (const auto* d = dynamic_cast<const nn::AlphaDropoutImpl*>(&m); d != nullptr) return d->options.p();
  if (const auto* d = dynamic_cast<const nn::FeatureAlphaDropoutImpl*>(&m); d != nullptr) return d->options.p();
  return 0;
}

bool is_other_activation(const nn::Module& m) {
  return dynamic_cast<const nn::TanhImpl*>(&m) != nullptr || dynamic_cast<const nn::SigmoidImpl*>(&m) != nullptr ||
         dynamic_cast<const nn::ReLU6Impl*>(&m) != nullptr || dynamic_cast<const nn::LeakyReLUImpl*>(&m) != nullptr ||
         dynamic_cast<const nn::ELUImpl*>(&m) != nullptr || dynamic_cast<const nn::MishImpl*>(&m) != nullptr;
}

/// Returns the module as torch's Linear; null for any other class, also one derived from it, whose forward may differ.
linear_layer linear_in(const std::shared_ptr<nn::Module>& m) {
  const nn::Module& it = *m;
  return typeid(it) == typeid(nn::LinearImpl) ? std::dynamic_pointer_cast<nn::LinearImpl>(m) : nullptr;
}

/// Finds the parts of a block in a module by a row of roles.
class part_finder {
 public:
  part_finder(const nn::Module& module, const layer_policy& policy) : policy_(policy) {
    for (const auto& item : module.named_modules()) below_.emplace_back(item.key(), item.value());
  }

  found_block find() {
    found_block out;
    for (const layer_role role : {layer_role::attention_norm, layer_role::query, layer_role::key, layer_role::value,
                                  layer_role::packed_qkv, layer_role::output, layer_role::mlp_norm, layer_role::gate,
                                  layer_role::up, layer_role::packed_gate_up, layer_role::down})
      out.roles += part_at(role) != nullptr ? 1 : 0;
    attends_ = has(layer_role::output) && (has(layer_role::packed_qkv) ||
                                           (has(layer_role::query) && has(layer_role::key) && has(layer_role::value)));
    has_mlp_ = has(layer_role::down) && (has(layer_role::up) || has(layer_role::packed_gate_up));
    if (!attends_ && !has_mlp_) {
      out.why = lacking();
      return out;
    }
    if (const std::string other = without_role(); !other.empty()) {
      out.why = fmt::format("'{}' has no role in policy '{}'", other, policy_.name);
      return out;
    }
    out.matches = true;
    out.attends = attends_;
    out.why = policy_.stays;
    if (!out.why.empty()) return out;
    block_parts parts;
    out.why = put(parts);
    if (out.why.empty()) out.forward = fused_forward(std::move(parts));
    return out;
  }

 private:
  using module_ptr = std::shared_ptr<nn::Module>;

  [[nodiscard]] bool has(layer_role role) const { return part_at(role) != nullptr; }
  [[nodiscard]] module_ptr part_at(layer_role role) const {
    for (const role_path& p : policy_.paths)
      if (p.role == role)
        for (const auto& [path, module] : below_)
          if (path == p.path) return module;
    return nullptr;
  }

  /// Returns the first path of the row that the module lacks.
  [[nodiscard]] std::string lacking() const {
    for (const role_path& p : policy_.paths)
      if (!has(p.role)) return fmt::format("it has no '{}' ({})", p.path, name_of(p.role));
    return "";
  }

  /// Returns the path of a module with weights that no role names; empty if there is none.
  [[nodiscard]] std::string without_role() const {
    std::set<const nn::Module*> named;
    for (const role_path& p : policy_.paths)
      if (const auto m = part_at(p.role); m != nullptr) named.insert(m.get());
    for (const auto& [path, module] : below_)
      if (!module->named_parameters(/*recurse=*/false).is_empty() && !named.contains(module.get()))
        return path.empty() ? std::string("the module itself") : path;
    return "";
  }

  /// Fills `parts`. Returns the reason why Troupe cannot compute the module; empty if it can.
  std::string put(block_parts& parts) {
    parts.order = policy_.order;
    parts.packing = policy_.packing;
    parts.adds_input = policy_.adds_input;
    parts.causal = policy_.causal;
    if (std::string why = find_activation(parts.act); !why.empty()) return why;
    if (attends_)
      if (std::string why = put_attention(parts); !why.empty()) return why;
    if (has_mlp_)
      if (std::string why = put_mlp(parts); !why.empty()) return why;
    return "";
  }

  std::string put_attention(block_parts& parts) {
    if (policy_.heads == 0) return "the policy says no number of heads (heads)";
    const uint32_t kv_heads = policy_.kv_heads > 0 ? policy_.kv_heads : policy_.heads;
    if (policy_.heads % kv_heads != 0)
      return fmt::format("wanted kv_heads that divide {} heads, got {}", policy_.heads, kv_heads);
    if (policy_.packing == qkv_packing::other) return "queries, keys and values are packed in an order of its own";
    block_half& half = parts.attention.emplace();
    const bool is_packed = has(layer_role::packed_qkv);
    if (is_packed && policy_.packing == qkv_packing::by_head && kv_heads != policy_.heads)
      return "packed heads have a key and a value each, and kv_heads differs from heads";
    const std::vector<layer_role> firsts = is_packed
                                               ? std::vector{layer_role::packed_qkv}
                                               : std::vector{layer_role::query, layer_role::key, layer_role::value};
    if (std::string why = put_half(half, layer_role::attention_norm, firsts, layer_role::output); !why.empty())
      return why;
    const int64_t outputs = half.inputs.front()->options.out_features();
    const int64_t heads = is_packed ? policy_.heads + 2 * static_cast<int64_t>(kv_heads) : policy_.heads;
    if (outputs % heads != 0)
      return fmt::format("wanted heads that divide the {} outputs of its first layer, got {}", outputs, heads);
    parts.head_width = outputs / heads;
    parts.group = policy_.heads / kv_heads;
    if (policy_.rotates && parts.head_width % 2 != 0) return "it rotates heads of an odd width";
    if (policy_.rotates) parts.rotary_base = policy_.rotary_base;
    return "";
  }

  std::string put_mlp(block_parts& parts) {
    parts.packs_gate = has(layer_role::packed_gate_up);
    std::vector<layer_role> firsts;
    if (parts.packs_gate) firsts = {layer_role::packed_gate_up};
    if (!parts.packs_gate && has(layer_role::gate)) firsts = {layer_role::gate};
    if (!parts.packs_gate) firsts.push_back(layer_role::up);
    return put_half(parts.mlp.emplace(), layer_role::mlp_norm, firsts, layer_role::down);
  }

  std::string put_half(block_half& half, layer_role norm, const std::vector<layer_role>& firsts, layer_role last) {
    if (const auto m = part_at(norm); m != nullptr)
      if (std::string why = put_norm(half, m); !why.empty()) return why;
    std::vector<layer_role> all = firsts;
    all.push_back(last);
    for (const layer_role role : all) {
      linear_layer l = linear_in(part_at(role));
      if (l == nullptr) return fmt::format("its {} is not torch's Linear", name_of(role));
      if (role == last)
        half.last = std::move(l);
      else
        half.inputs.push_back(std::move(l));
    }
    return "";
  }

  std::string put_norm(block_half& half, const module_ptr& m) {
    if (policy_.norm == norm_kind::layer) {
      std::string why;
      if (!has_own_norm(*m, why)) return why;
      const auto layer = std::dynamic_pointer_cast<nn::LayerNormImpl>(m);
      half.norm = host_norm{layer, {}, layer->options.eps()};
      return "";
    }
    if (policy_.norm == norm_kind::rms_plus_one) return "its norms multiply by 1 + w";
    const auto own = m->named_parameters(/*recurse=*/false);
    if (own.size() != 1 || !own.contains("weight") || own["weight"].dim() != 1)
      return "a norm that is no RMS norm: wanted one parameter, 'weight', of one dimension";
    half.norm = host_norm{nullptr, own["weight"], policy_.epsilon};
    return "";
  }

  /// Sets `act` to the activation of the block's MLP. Returns the reason why it cannot; empty if it can. Dropout with a
  /// probability above 0 is such a reason, because Troupe's layers would draw other random numbers.
  std::string find_activation(mlp_activation& act) {
    std::optional<mlp_activation> found;
    for (const auto& [path, module] : below_) {
      if (const double p = drop_probability(*module); p > 0)
        return fmt::format("'{}' drops with probability {}, whose random numbers would differ", path, p);
      if (is_other_activation(*module)) return fmt::format("Troupe has no activation as '{}'", path);
      const auto here = activation_in(*module);
      if (here && found && *here != *found) return "it has several activations";
      if (here) found = here;
    }
    act = found.value_or(policy_.act);
    return "";
  }

  const layer_policy& policy_;
  std::vector<std::pair<std::string, module_ptr>> below_;
  bool attends_ = false, has_mlp_ = false;
};

}  // namespace

bool has_own_norm(const nn::Module& m, std::string& why) {
  const auto* norm = dynamic_cast<const nn::LayerNormImpl*>(&m);
  if (norm == nullptr)
    why = "Troupe has no separate kernel for it";
  else if (typeid(m) != typeid(nn::LayerNormImpl))
    why = "a class of the host's own, derived from torch's norm";
  else if (norm->options.normalized_shape().size() != 1)
    why = "a norm over several dimensions";
  else if (!norm->weight.defined() || !norm->bias.defined())
    why = "a norm without weight and bias";
  else
    why.clear();
  return why.empty();
}

found_block block_of(const std::shared_ptr<nn::Module>& module, const layer_policy& policy) {
  return part_finder(*module, policy).find();
}

tensor_function run_of_layers(const std::vector<std::shared_ptr<nn::Module>>& layers, size_t& count) {
  count = 0;
  size_t next = 0;
  block_parts parts;
  parts.adds_input = false;
  block_half& half = parts.mlp.emplace();
  std::string why;
  if (next < layers.size() && has_own_norm(*layers[next], why)) {
    const auto norm = std::dynamic_pointer_cast<nn::LayerNormImpl>(layers[next++]);
    half.norm = host_norm{norm, {}, norm->options.eps()};
  }
  if (next >= layers.size()) return {};
  linear_layer first = linear_in(layers[next]);
  if (first == nullptr) return {};
  half.inputs.push_back(std::move(first));
  ++next;
  if (next + 1 < layers.size())
    if (const auto act = activation_in(*layers[next]); act)
      if (linear_layer last = linear_in(layers[next + 1]); last != nullptr) {
        parts.act = *act;
        half.last = std::move(last);
        next += 2;
      }
  if (half.last == nullptr && !half.norm) return {};
  count = next;
  return fused_forward(std::move(parts));
}

}  // namespace troupe::models
