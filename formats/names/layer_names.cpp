#include "formats/names/layer_names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "core/json_text.hpp"
#include "core/number.hpp"
#include "formats/names/name_map.hpp"
#include "formats/safetensors/header.hpp"

namespace troupe::formats {
namespace {

bool is_layer_name(std::string_view name) { return layer_place_of(name).has_value() || name.starts_with(tied_modules); }

bool has_layer_names(const tensor_source& s) {
  return std::ranges::any_of(s.tensors, [](const auto& t) { return is_layer_name(t.name); });
}

/// The parameters of one pipeline layer, or of one module that pipeline stages share.
struct layer_unit {
  std::string prefix;  ///< beginning of the unit's names in the pipeline: `3.`
  /// Shape of each parameter, by its name without the prefix.
  std::map<std::string, std::vector<int64_t>> parameters{};
  bool is_tied = false;
};

/// Returns the prefix of the name's unit: `3.` for `3.mlp.bias`, `tied_modules.embed.` for `tied_modules.embed.weight`;
/// empty for any other name.
std::string unit_prefix(const std::string& name) {
  if (!is_layer_name(name)) return "";
  const size_t dot = name.find('.', name.starts_with(tied_modules) ? tied_modules.size() : 0);
  return dot == std::string::npos ? "" : name.substr(0, dot + 1);
}

/// Returns the modules of the DeepSpeed PipelineModule whose checkpoint `pipeline` is: modules that stages share (tied
/// ones) first, then layers ascending. Returns an empty list if a parameter belongs to none of them.
std::vector<layer_unit> units_of(const tensor_source& pipeline) {
  std::map<std::pair<int64_t, std::string>, layer_unit> found;
  for (const auto& t : pipeline.tensors) {
    if (t.kind == tensor_kind::moment || t.kind == tensor_kind::buffer || is_derived_buffer(t.name)) continue;
    const auto prefix = unit_prefix(t.name);
    if (prefix.empty()) return {};
    const auto place = layer_place_of(t.name);
    const std::pair<int64_t, std::string> key{place ? int64_t{place->layer} : -1, prefix};
    auto& unit = found.try_emplace(key, layer_unit{prefix, {}, !place}).first->second;
    unit.parameters.emplace(t.name.substr(prefix.size()), t.shape);
  }
  std::vector<layer_unit> out;
  for (auto& [key, unit] : found) out.push_back(std::move(unit));
  return out;
}

class layer_matcher {
 public:
  layer_matcher(const tensor_source& pipeline, std::span<const wanted_tensor> wanted) : units_(units_of(pipeline)) {
    for (const auto& w : wanted) left_.emplace(w.name, &w.shape);
  }

  /// Returns, for each layer_unit, the prefix of its names in the model by the prefix of its names in the pipeline;
  /// empty if the units do not match `wanted`.
  std::map<std::string, std::string> match(std::span<const wanted_tensor> wanted) {
    std::map<std::string, std::string> out;
    std::vector<bool> used(units_.size());
    for (const auto& w : wanted) {
      if (!left_.contains(w.name)) continue;  // the parameter belongs to a unit that is matched already
      bool placed = false;
      for (size_t u = 0; u < units_.size() && !placed; ++u) {
        if (used[u]) continue;
        if (const auto prefix = prefix_in_model(units_[u], w.name)) {
          for (const auto& [key, shape] : units_[u].parameters) left_.erase(*prefix + key);
          out.emplace(units_[u].prefix, *prefix);
          used[u] = placed = true;
        }
        if (!units_[u].is_tied) break;  // layers must match in the order of the model
      }
      if (!placed) return {};
    }
    return std::ranges::find(used, false) == used.end() ? out : std::map<std::string, std::string>{};
  }

 private:
  /// Returns the prefix under which `wanted` has all parameters of `unit`, among them `name`.
  [[nodiscard]] std::optional<std::string> prefix_in_model(const layer_unit& unit, std::string_view name) const {
    for (const auto& [own, own_shape] : unit.parameters) {
      if (!name.ends_with(own) || (name.size() > own.size() && name[name.size() - own.size() - 1] != '.')) continue;
      const std::string prefix(name.substr(0, name.size() - own.size()));
      const auto is_wanted = [&](const auto& parameter) {
        const auto at = left_.find(prefix + parameter.first);
        return at != left_.end() && *at->second == parameter.second;
      };
      if (std::ranges::all_of(unit.parameters, is_wanted)) return prefix;
    }
    return std::nullopt;
  }

  std::vector<layer_unit> units_;
  std::map<std::string, const std::vector<int64_t>*> left_;  ///< wanted parameters that belong to no matched unit yet
};

std::map<uint32_t, std::string> taken_prefixes(std::string& client_state) {
  std::map<uint32_t, std::string> out;
  if (client_state.find(layer_prefixes_key) == std::string::npos) return out;
  auto client = core::parse_json(client_state);
  if (!client || !client->is_object()) return out;
  const auto at = client->find(layer_prefixes_key);
  if (at == client->end() || !at->is_object()) return out;
  for (const auto& [layer, prefix] : at->items())
    if (const auto place = layer_place_of(layer + ".x"); place && prefix.is_string())
      out.emplace(place->layer, prefix.get<std::string>());
  client->erase(at);
  client_state = client->empty() ? "null" : client->dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return out;
}

}  // namespace

std::optional<layer_place> layer_place_of(std::string_view name) {
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos || dot + 1 == name.size()) return std::nullopt;
  layer_place out;
  const auto layer = core::number_of<decltype(out.layer)>(name.substr(0, dot));
  if (!layer) return std::nullopt;
  out.layer = *layer;
  out.key = name.substr(dot + 1);
  return out;
}

std::vector<wanted_tensor> parameters_of(const tensor_source& s) {
  std::map<std::string_view, const tensor_entry*> all;
  for (const auto& t : s.tensors)
    if (t.kind != tensor_kind::moment && t.kind != tensor_kind::buffer && !is_derived_buffer(t.name))
      all.emplace(t.name, &t);
  std::vector<wanted_tensor> out;
  const auto take = [&](std::string_view name) {
    const auto at = all.find(name);
    if (at == all.end()) return;
    out.push_back({at->second->name, at->second->shape});
    all.erase(at);
  };
  for (const auto& name : s.parameter_order) take(name);
  while (!all.empty()) take(all.begin()->first);
  return out;
}

core::result<tensor_source> renamed(tensor_source s, const std::function<std::string(const std::string&)>& to) {
  auto in_files = std::move(s.names_in_files);
  s.names_in_files.clear();
  auto stored_as = std::move(s.stored_as);
  s.stored_as.clear();
  for (auto& [name, how] : stored_as) s.stored_as.emplace(to(name), std::move(how));
  const auto rename = [&](std::string& name) {
    auto other = to(name);
    const auto before = in_files.find(name);
    const std::string& own = before == in_files.end() ? name : before->second;
    if (other != own) s.names_in_files.emplace(other, own);
    name = std::move(other);
  };
  for (auto& t : s.tensors) rename(t.name);
  for (auto& t : s.tied) t = {to(t.name), to(t.of)};
  for (auto& name : s.parameter_order) name = to(name);
  TROUPE_TRY(complete(s));
  s.has_layer_names = s.has_layer_names && has_layer_names(s);
  return s;
}

core::result<tensor_source> with_kept_names(tensor_source pipeline) {
  pipeline.has_layer_names = has_layer_names(pipeline);
  const auto prefixes = taken_prefixes(pipeline.run.client_state);
  if (prefixes.empty()) return pipeline;
  return renamed(std::move(pipeline), [&](const std::string& name) {
    const auto place = layer_place_of(name);
    const auto prefix = place ? prefixes.find(place->layer) : prefixes.end();
    return prefix == prefixes.end() ? name : prefix->second + place->key;
  });
}

core::result<tensor_source> named_by_layers(tensor_source pipeline, std::span<const wanted_tensor> wanted) {
  if (!pipeline.has_layer_names || wanted.empty()) return pipeline;
  const auto prefixes = layer_matcher(pipeline, wanted).match(wanted);
  if (prefixes.empty()) return pipeline;
  return renamed(std::move(pipeline), [&](const std::string& name) {
    const auto own = unit_prefix(name);
    const auto at = prefixes.find(own);
    return at == prefixes.end() ? name : at->second + name.substr(own.size());
  });
}

std::string first_names(const std::vector<std::string>& names, size_t most) {
  std::vector<std::string> some;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) some.push_back(shown(names[i]));
  const size_t more = names.size() - some.size();
  return fmt::format("{}{}", fmt::join(some, ", "), more == 0 ? "" : fmt::format(" and {} more", more));
}

core::error unnamed_layers(const tensor_source& pipeline, std::span<const wanted_tensor> wanted) {
  std::vector<std::string> names, found;
  for (const auto& w : wanted) names.push_back(w.name);
  for (const auto& p : parameters_of(pipeline)) found.push_back(p.name);
  return {error_kind::mismatch,
          fmt::format("'{}' is a pipeline with unknown names of layers: wanted {}, it has {}; map its names with a "
                      "file of names (--map)",
                      shown_place(pipeline), names.empty() ? "the names of a model" : first_names(names),
                      first_names(found))};
}

}  // namespace troupe::formats
