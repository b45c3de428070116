#include "job/compression.hpp"

#include <algorithm>

#include "job/module_choice.hpp"

namespace troupe::job {
namespace {

bool is_compressible(const core::layer_info& l) {
  const bool holds_matrix = l.kind == core::layer_kind::linear || l.kind == core::layer_kind::embedding ||
                            l.kind == core::layer_kind::position_embedding;
  return holds_matrix && l.weight.has_value() && l.layout.has_value();
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
  const auto is_linear = [](const core::layer_info& l) {
    return l.kind == core::layer_kind::linear && is_compressible(l);
  };
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

/// One for each use: with the most room that a technique takes, and the masks of all.
void join_uses(std::vector<plan::compressed_use>& uses) {
  std::ranges::sort(uses);
  std::vector<plan::compressed_use> out;
  for (const auto& x : uses) {
    const bool is_same = !out.empty() && out.back().unit == x.unit && out.back().parameter == x.parameter;
    if (!is_same) {
      out.push_back(x);
      continue;
    }
    out.back().room_elements = std::max(out.back().room_elements, x.room_elements);
    out.back().mask_bytes += x.mask_bytes;
  }
  uses = std::move(out);
}

}  // namespace

std::vector<uint64_t> chosen_compression::phases() const {
  std::vector<uint64_t> out{0};
  for (const auto& m : modules) out.push_back(m.from_update);
  for (const auto& l : layers) out.push_back(l.from_update);
  for (const auto& m : pruned) out.push_back(m.from_update);
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
  for (const auto& m : pruned) {
    if (m.from_update > updates) continue;
    out.weights.push_back({m.unit, m.weight, 0, m.mask_bytes()});
    if (m.bias) out.weights.push_back({m.unit, *m.bias, 0, mask_bytes_of(m.matrix.rows)});
  }
  join_uses(out.weights);
  return out;
}

const kernels::weight_recipe* chosen_compression::recipe_of(uint32_t unit, uint32_t parameter, uint64_t updates) const {
  const auto at = std::ranges::lower_bound(modules, plan::compressed_use{unit, parameter}, {}, &compressed_module::use);
  const bool is_there = at != modules.end() && at->use.unit == unit && at->use.parameter == parameter;
  return is_there && at->from_update <= updates ? &at->recipe : nullptr;
}

kernels::quantiser chosen_compression::input_of(uint32_t layer) const {
  return std::ranges::lower_bound(layers, plan::compressed_input{layer}, {}, &compressed_layer::use)->grid;
}

core::result<chosen_compression> choose_compression(const config::job_config& config, const core::model_table& table,
                                                    std::optional<uint64_t> rows) {
  chosen_compression out;
  if (auto ok = choose_weights(config, table, out); !ok) return core::fail(ok.error());
  if (auto ok = choose_inputs(config, table, rows, out); !ok) return core::fail(ok.error());
  auto pruned = choose_pruning(config, table);
  if (!pruned) return core::fail(pruned.error());
  out.pruned = std::move(*pruned);
  return out;
}

}  // namespace troupe::job
