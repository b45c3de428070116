#include "formats/deepspeed/ranks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "core/tensor_view.hpp"
#include "formats/deepspeed/averaged.hpp"
#include "formats/deepspeed/lists.hpp"
#include "formats/safetensors/header.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/torch/pieces.hpp"

namespace troupe::formats {
namespace {

using core::refused;

/// Returns a parallel degree that the model file stores under `key`; 0 if the file has none.
core::result<uint32_t> degree(const torch_archive& model, const char* key) {
  const auto& tree = model.tree();
  const auto dimensions = tree.find(model.root(), "checkpoint_parallel_dimensions");
  const auto value = dimensions ? tree.find(*dimensions, key) : std::nullopt;
  if (!value || tree.kind(*value) == pickle_kind::none) return 0;
  const auto n = model.integer(*value);
  if (!n || *n < 1 || *n > max_tensor_ranks)
    return refused(fmt::format("'{}': {} is not a valid number of ranks", model.name(), key));
  return static_cast<uint32_t>(*n);
}

/// Returns the prefix (`tied_modules.embed.`) of the masters that the tensors of a layer file belong to; empty unless
/// exactly one prefix, not in `taken`, has masters with the layer's names and shapes.
std::string tied_prefix(const tensor_source& in, const named_tensors& layer, const std::set<std::string>& taken) {
  constexpr std::string_view tied = "tied_modules.";
  std::set<std::string> fitting;
  for (const auto& t : in.tensors) {
    if (t.kind != tensor_kind::master || !t.name.starts_with(tied)) continue;
    for (const auto& [local, tensor] : layer)
      if (t.name.ends_with("." + local) && t.name.size() > tied.size() + local.size())
        fitting.insert(t.name.substr(0, t.name.size() - local.size()));
  }
  std::erase_if(fitting, [&](const std::string& prefix) {
    return taken.contains(prefix) || !std::ranges::all_of(layer, [&](const auto& l) {
             const auto* master = find_tensor(in, prefix + l.first, tensor_kind::master);
             return master != nullptr && master->shape == l.second.shape;
           });
  });
  return fitting.size() == 1 ? *fitting.begin() : "";
}

}  // namespace

core::result<deepspeed_grid> grid_of(const deepspeed_files& files, const torch_archive& model) {
  TROUPE_ASSIGN(const auto stages, degree(model, "pp_degree"));
  TROUPE_ASSIGN(const auto tensor, degree(model, "tp_degree"));
  const uint32_t ranks = files.model.back().mp + 1;
  deepspeed_grid out{stages, tensor};
  if (out.tensor == 0) {
    out.tensor = files.layers.empty() ? ranks : 1;
    for (const auto& layer : files.layers) out.tensor = std::max(out.tensor, layer.mp + 1);
  }
  if (out.stages == 0) out.stages = std::max<uint32_t>(ranks / out.tensor, 1);
  if (out.stages * out.tensor != ranks)
    return refused(
        fmt::format("'{}' holds files of {} model-parallel ranks, {} stages of {} tensor-parallel ranks were "
                    "wanted",
                    files.folder.string(), ranks, out.stages, out.tensor));
  return out;
}

core::result<void> add_layers(const deepspeed_files& files, uint32_t rank, tensor_source& to) {
  put_in_order(to);
  std::vector<tensor_entry> found;
  std::set<std::string> taken;
  for (const auto& layer : files.layers) {
    if (layer.mp != rank) continue;
    TROUPE_ASSIGN(const auto file, open_numbered(to.files, layer.path));
    std::vector<unread_tensor> unread;
    const auto tensors = tensors_of(file, file.root(), &unread);
    if (!tensors) return fail(tensors.error().in(fmt::format("'{}'", file.name())));
    std::string prefix = fmt::format("{}.", layer.layer);
    const bool is_trained = std::ranges::any_of(
        *tensors, [&](const auto& t) { return find_tensor(to, prefix + t.first, tensor_kind::master) != nullptr; });
    if (const auto tied = is_trained ? "" : tied_prefix(to, *tensors, taken); !tied.empty()) prefix = tied;
    taken.insert(prefix);
    for (auto& t : unread) to.unread.push_back({prefix + t.name, std::move(t.type)});
    for (const auto& [local, tensor] : *tensors) {
      const auto* master = find_tensor(to, prefix + local, tensor_kind::master);
      if (master != nullptr && master->type == tensor.type) continue;
      const bool has_optimizer = !to.tensors.empty();
      const auto kind = master != nullptr                 ? tensor_kind::weight
                        : has_optimizer                   ? tensor_kind::frozen
                        : tensor.type == core::dtype::f32 ? tensor_kind::master
                                                          : tensor_kind::weight;
      auto& entry = found.emplace_back(tensor_entry{prefix + local, kind, "", tensor.type, tensor.shape, {}});
      if (auto ok = add_pieces(entry.pieces, file.number, tensor); !ok)
        return fail(ok.error().in(fmt::format("'{}': tensor '{}'", file.name(), shown(local))));
    }
  }
  for (auto& t : found) {
    if (t.kind != tensor_kind::weight || find_tensor(to, t.name, tensor_kind::master) == nullptr)
      to.parameter_order.push_back(t.name);
    to.tensors.push_back(std::move(t));
  }
  return {};
}

core::result<rule_chooser> rules_of(const torch_archive& model, const std::vector<tensor_source>& ranks) {
  const auto& tree = model.tree();
  auto buffers = std::make_shared<std::set<std::string, std::less<>>>();
  bool is_megatron = false;
  for (const auto& t : ranks.front().tensors) {
    if (t.kind == tensor_kind::buffer) buffers->insert(t.name);
    is_megatron = is_megatron || is_megatron_name(t.name);
  }
  const auto info = tree.find(model.root(), "universal_checkpoint_info");
  if (info && tree.kind(*info) == pickle_kind::dict && !tree.items(*info).empty()) {
    auto patterns = read_universal_patterns(model, *info);
    if (!patterns) return fail(patterns.error().in(fmt::format("'{}'", model.name())));
    auto rules = pattern_rules::create(std::move(*patterns));
    if (!rules) return fail(rules.error().in(fmt::format("'{}'", model.name())));
    auto shared = std::make_shared<pattern_rules>(std::move(*rules));
    return rule_chooser([shared, buffers](std::string_view name) -> core::result<cut_rule> {
      if (buffers->contains(name)) return cut_rule{};
      return shared->rule(name);
    });
  }
  if (!is_megatron)
    return refused(
        fmt::format("'{}': its tensor-parallel ranks cannot be merged: it has no 'universal_checkpoint_info', and its "
                    "parameters do not have Megatron's names",
                    model.name()));
  double version = 0;  // Megatron's value for a missing version
  if (const auto v = tree.find(model.root(), "checkpoint_version")) {
    if (tree.kind(*v) == pickle_kind::real) version = tree.real(*v);
    if (tree.kind(*v) == pickle_kind::integer) version = static_cast<double>(tree.integer(*v));
  }
  const auto qkv = qkv_version_from(version);
  if (!qkv) return fail(qkv.error().in(fmt::format("'{}'", model.name())));
  return megatron_rules_of(*qkv);
}

core::result<tensor_source> joined(std::vector<tensor_source> ranks, const torch_archive& model) {
  TROUPE_ASSIGN(const auto rules, rules_of(model, ranks));
  for (auto& rank : ranks) put_in_order(rank);
  TROUPE_ASSIGN(auto merged, merge_ranks(std::move(ranks), rules));
  TROUPE_TRY(take_means(merged));
  return std::move(merged.whole);
}

}  // namespace troupe::formats
