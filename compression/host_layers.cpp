#include "compression/host_layers.hpp"

#include <torch/nn/module.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/instancenorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <type_traits>
#include <utility>

#include "models/host/module_builder.hpp"
#include "models/host/module_table.hpp"

namespace troupe::compression {
namespace {

namespace nn = torch::nn;

/// Casts `m` to the first type of `Types` that it has, and calls `take` with the result. Returns false if `m` has none
/// of the types.
template <class... Types, class Take>
bool as_any(nn::Module& m, Take take) {
  const auto one = [&]<class Type>(std::type_identity<Type>) {
    auto* const is = dynamic_cast<Type*>(&m);
    if (is != nullptr) take(*is);
    return is != nullptr;
  };
  return (one(std::type_identity<Types>()) || ...);
}

/// Pointers to the numbers of outputs and inputs that a module's options store; null for a number that they do not
/// store.
struct said_sizes {
  int64_t *outputs = nullptr, *inputs = nullptr;
};

said_sizes sizes_of(nn::Module& m) {
  said_sizes out;
  as_any<nn::LinearImpl>(m, [&](auto& l) { out = {&l.options.out_features(), &l.options.in_features()}; });
  as_any<nn::Conv1dImpl, nn::Conv2dImpl, nn::Conv3dImpl, nn::ConvTranspose1dImpl, nn::ConvTranspose2dImpl,
         nn::ConvTranspose3dImpl>(m, [&](auto& c) {
    out = {&c.options.out_channels(), &c.options.in_channels()};
  });
  as_any<nn::BatchNorm1dImpl, nn::BatchNorm2dImpl, nn::BatchNorm3dImpl, nn::InstanceNorm1dImpl, nn::InstanceNorm2dImpl,
         nn::InstanceNorm3dImpl>(m, [&](auto& n) { out.outputs = &n.options.num_features(); });
  as_any<nn::EmbeddingImpl>(m, [&](auto& e) { out.outputs = &e.options.embedding_dim(); });
  as_any<nn::EmbeddingBagImpl>(m, [&](auto& e) { out.outputs = &e.options.embedding_dim(); });
  as_any<nn::PReLUImpl>(m, [&](auto& p) { out.outputs = &p.options.num_parameters(); });
  return out;
}

/// Returns the reason why outputs or inputs of the module cannot be removed; empty if they can.
std::string why_rigid(nn::Module& m) {
  if (sizes_of(m).outputs != nullptr) return "";
  if (as_any<nn::LayerNormImpl, nn::GroupNormImpl>(m, [](auto&) {}))
    return "a norm over several channels, which would have a different mean without the removed ones";
  if (as_any<nn::MultiheadAttentionImpl>(m, [](auto&) {}))
    return "attention with a number of heads that depends on its width";
  return "a module without widths or of a type that is not from torch::nn";
}

void look_at(const models::module_unit& unit, std::map<std::string, std::string>& rigid) {
  if (unit.module == nullptr) return;
  for (const auto& item : unit.module->named_modules()) {
    const std::string name = item.key().empty() ? unit.name : unit.name + "." + item.key();
    if (auto why = why_rigid(*item.value()); !why.empty()) rigid.emplace(name, std::move(why));
    if (const auto* a = dynamic_cast<const nn::MultiheadAttentionImpl*>(item.value().get()); a != nullptr)
      rigid.emplace(name + ".out_proj", "a part of " + name + ", " + rigid.at(name));
  }
}

}  // namespace

core::result<void> host_layers::may_cut(const job::cleaning& what) const {
  for (const auto& cut : what.cuts)
    if (const auto at = rigid.find(cut.module); at != rigid.end())
      return core::fail(core::error_kind::bad_input,
                        "compression_training: related_modules: wanted layers that can become smaller, got " +
                            cut.module + ": " + at->second);
  return {};
}

core::result<host_layers> host_layers_of(const models::module_model& model, uint64_t seed) {
  TROUPE_TRY(models::check_units(model));
  // This copy receives the built units, one at a time, so that the units of `model` stay unbuilt.
  models::module_model own = model;
  models::table_builder rows(own);
  models::module_builder builder(seed);
  host_layers out;
  for (uint32_t u = 0; u < own.units.size(); ++u) {
    const bool was_built = own.units[u].module != nullptr;
    TROUPE_TRY(builder.build(own, u));
    TROUPE_TRY(rows.add(own.units[u], u));
    look_at(own.units[u], out.rigid);
    if (was_built || own.units[u].recipe == nullptr) continue;
    auto parts = models::parts_of(own.units[u]);
    builder.drop(own, u);
    rows.forget(std::move(parts));
  }
  out.table = std::move(rows.table());
  return out;
}

layer_sizes set_sizes(nn::Module& module, const layer_sizes& to) {
  const said_sizes said = sizes_of(module);
  const auto set = [](int64_t* size, int64_t value) {
    return size == nullptr ? 0 : std::exchange(*size, value > 0 ? value : *size);
  };
  return {set(said.outputs, to.outputs), set(said.inputs, to.inputs)};
}

}  // namespace troupe::compression
