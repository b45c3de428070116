#include "job/compression.hpp"

#include <algorithm>
#include <map>

#include "config/name_pattern.hpp"

namespace troupe::job {
namespace {

tl::unexpected<core::error> refused(const std::string& where, const std::string& key, const std::string& text) {
  return core::fail(core::error_kind::bad_input, (where.empty() ? "" : where + ": ") + key + ": " + text);
}

bool is_compressible(const core::layer_info& l) {
  const bool holds_matrix = l.kind == core::layer_kind::linear || l.kind == core::layer_kind::embedding ||
                            l.kind == core::layer_kind::position_embedding;
  return holds_matrix && l.weight.has_value() && l.layout.has_value();
}

/// Layers whose module names have the pattern in them.
core::result<std::vector<size_t>> found(const std::string& pattern, const core::model_table& table) {
  std::vector<std::string> names;
  for (const auto& l : table.layers) names.push_back(l.name);
  const auto in = config::searched_in(pattern == "*" ? "" : pattern, names);
  if (!in) return core::fail(in.error());
  std::vector<size_t> out;
  for (size_t i = 0; i < table.layers.size(); ++i)
    if ((*in)[i] && is_compressible(table.layers[i])) out.push_back(i);
  return out;
}

core::result<kernels::weight_recipe> recipe_of(const config::weight_quantization_section& w, uint32_t bits,
                                               const core::layer_info& l, const core::parameter_info& weight) {
  auto grid = kernels::weight_quantiser(bits, w.type == config::grid_type::symmetric);
  if (!grid) return core::fail(grid.error());
  kernels::weight_recipe out{*grid, w.quantize_groups, static_cast<uint64_t>(weight.shape[0]),
                             static_cast<uint64_t>(weight.shape[1]),
                             l.kind == core::layer_kind::linear && l.layout == core::weight_layout::in_out};
  if (l.kind != core::layer_kind::linear) out.groups = out.rows;
  if (const auto size = kernels::elements_of_group(out.elements(), out.groups); !size) return core::fail(size.error());
  return out;
}

/// What all techniques have in common.
struct technique {
  std::string key;
  const std::string& where;
  uint64_t schedule_offset;
};

core::result<void> goes_together(const config::job_config& c, const technique& t) {
  if (c.parallel.tensor > 1)
    return refused(t.where, t.key + ".shared_parameters.enabled",
                   "wanted false beside parallel.tensor, with which it does not go together yet, got true and " +
                       std::to_string(c.parallel.tensor) + " tensor ranks");
  if (c.compile.enabled && t.schedule_offset > 0)
    return refused(
        t.where, t.key + ".shared_parameters.schedule_offset",
        "wanted 0 beside compile, whose passes change the same steps, got " + std::to_string(t.schedule_offset));
  return {};
}

/// Calls take(group, layer) for each layer that a group's patterns find among those that `fits` accepts.
template <class Group, class Fits, class Take>
core::result<void> choose(const technique& t, const std::vector<Group>& groups, const core::model_table& table,
                          Fits fits, Take take) {
  std::map<size_t, std::string> group_of;  // [layer]
  for (const Group& g : groups) {
    const std::string key = t.key + ".different_groups." + g.name + ".modules";
    size_t modules = 0;
    for (const std::string& pattern : g.modules) {
      const auto layers = found(pattern, table);
      if (!layers) return refused(g.where, key, layers.error().text);
      for (const size_t i : *layers) {
        const auto& l = table.layers[i];
        if (!fits(l)) continue;
        const auto [before, is_new] = group_of.emplace(i, g.name);
        if (!is_new && before->second == g.name) continue;  // another pattern of this group has found it
        if (!is_new)
          return refused(g.where, key,
                         "wanted each module in one group, got " + l.name + " in " + before->second + " and " + g.name);
        if (const core::result<void> ok = take(g, static_cast<uint32_t>(i)); !ok)
          return refused(g.where, key, l.name + ": " + ok.error().text);
        ++modules;
      }
    }
    if (modules == 0)
      return refused(g.where, key,
                     "wanted patterns that are found in the name of a module, got none of those of " +
                         std::to_string(table.layers.size()) + " layers");
  }
  return {};
}

core::result<void> choose_weights(const config::job_config& c, const core::model_table& table,
                                  chosen_compression& out) {
  const auto& w = c.compression.weights;
  if (!w.enabled) return {};
  const technique t{"compression_training.weight_quantization", w.where, w.schedule_offset};
  if (auto ok = goes_together(c, t); !ok) return ok;
  const auto take = [&](const config::weight_group& g, uint32_t layer) -> core::result<void> {
    const auto& l = table.layers[layer];
    auto recipe = recipe_of(w, g.target_bits, l, table.parameters[*l.weight]);
    if (!recipe) return core::fail(recipe.error());
    out.modules.push_back({l.name, g.name, {l.unit, *l.weight, recipe->room_elements()}, *recipe, w.schedule_offset});
    return {};
  };
  if (auto ok = choose(t, w.groups, table, is_compressible, take); !ok) return ok;
  std::ranges::sort(out.modules, {}, &compressed_module::use);
  return {};
}

core::result<void> choose_inputs(const config::job_config& c, const core::model_table& table,
                                 std::optional<uint64_t> rows, chosen_compression& out) {
  const auto& a = c.compression.activations;
  if (!a.enabled) return {};
  const technique t{"compression_training.activation_quantization", a.where, a.schedule_offset};
  if (auto ok = goes_together(c, t); !ok) return ok;
  if (!rows)
    return refused(a.where, t.key + ".shared_parameters.enabled",
                   "wanted false beside a host's own modules, which multiply by themselves, got true");
  const auto is_linear = [](const core::layer_info& l) { return l.kind == core::layer_kind::linear; };
  const auto take = [&](const config::activation_group& g, uint32_t layer) -> core::result<void> {
    const auto& l = table.layers[layer];
    const auto grid = kernels::activation_quantiser(g.bits, a.type == config::grid_type::symmetric);
    if (!grid) return core::fail(grid.error());
    const uint64_t room_bytes = *rows * l.in * core::size_of(c.parameter_dtype());
    out.layers.push_back({l.name, g.name, {layer, room_bytes}, *grid, a.schedule_offset});
    return {};
  };
  if (auto ok = choose(t, a.groups, table, is_linear, take); !ok) return ok;
  std::ranges::sort(out.layers, {}, &compressed_layer::use);
  return {};
}

}  // namespace

std::vector<uint64_t> chosen_compression::phases() const {
  std::vector<uint64_t> out{0};
  for (const auto& m : modules) out.push_back(m.from_update);
  for (const auto& l : layers) out.push_back(l.from_update);
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

plan::compression_options chosen_compression::after(uint64_t updates) const {
  plan::compression_options out;
  for (const auto& m : modules)
    if (m.from_update <= updates) out.weights.push_back(m.use);
  for (const auto& l : layers)
    if (l.from_update <= updates) out.inputs.push_back(l.use);
  return out;
}

const kernels::weight_recipe* chosen_compression::recipe_of(uint32_t unit, uint32_t parameter) const {
  const auto at = std::ranges::lower_bound(modules, plan::compressed_use{unit, parameter}, {}, &compressed_module::use);
  const bool is_there = at != modules.end() && at->use.unit == unit && at->use.parameter == parameter;
  return is_there ? &at->recipe : nullptr;
}

kernels::quantiser chosen_compression::input_of(uint32_t layer) const {
  return std::ranges::lower_bound(layers, plan::compressed_input{layer}, {}, &compressed_layer::use)->grid;
}

core::result<chosen_compression> choose_compression(const config::job_config& config, const core::model_table& table,
                                                    std::optional<uint64_t> rows) {
  chosen_compression out;
  if (auto ok = choose_weights(config, table, out); !ok) return core::fail(ok.error());
  if (auto ok = choose_inputs(config, table, rows, out); !ok) return core::fail(ok.error());
  return out;
}

}  // namespace troupe::job
