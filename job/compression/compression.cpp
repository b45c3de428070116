#include "job/compression/compression.hpp"

#include <algorithm>
#include <cmath>

#include "job/compression/module_choice.hpp"
#include "job/compression/weight_shares.hpp"

namespace troupe::job {
namespace {

bool is_embedding(const core::layer_info& l) {
  return l.kind == core::layer_kind::embedding || l.kind == core::layer_kind::position_embedding ||
         l.kind == core::layer_kind::type_embedding;
}

bool is_compressible(const core::layer_info& l) {
  // The filters of a convolution are rows; a transposed convolution has them along the second dimension.
  const bool holds_matrix = l.kind == core::layer_kind::linear || is_embedding(l) ||
                            (l.kind == core::layer_kind::convolution && l.layout == core::weight_layout::out_in);
  return holds_matrix && l.weight.has_value() && l.layout.has_value();
}

// Returns the recipe of the whole matrix; the filters of a convolution are its rows. With bits that change (MoQ),
// embeddings have the same number of groups as other matrices, as in DeepSpeed.
core::result<kernels::weight_recipe> recipe_of(const config::weight_quantization_section& w, uint32_t bits,
                                               const core::layer_info& l, const core::parameter_info& weight) {
  TROUPE_ASSIGN(auto grid, kernels::weight_quantiser(bits, w.type == config::grid_type::symmetric));
  kernels::weight_recipe out{grid,
                             w.quantize_groups,
                             static_cast<uint64_t>(weight.shape[0]),
                             weight.numel() / static_cast<uint64_t>(weight.shape[0]),
                             l.kind == core::layer_kind::linear && l.layout == core::weight_layout::in_out,
                             w.stochastic};
  if (is_embedding(l) && w.in_forward) out.groups = out.rows;
  TROUPE_TRY(kernels::elements_of_group(out.elements(), out.groups));
  return out;
}

// Returns a compressed module. Its groups are those of the whole matrix, of which a tensor-parallel rank stores a part.
core::result<compressed_module> module_from(const config::weight_quantization_section& w, const config::weight_group& g,
                                            const core::model_table& table, const chosen_tensor& tensor,
                                            uint32_t layer) {
  const auto& l = table.layers[layer];
  const auto& whole = tensor.whole->parameters[*l.weight];
  TROUPE_ASSIGN(auto recipe, recipe_of(w, g.target_bits, l, whole));
  compressed_module out{l.name, g.name, {l.unit, *l.weight, recipe.room_elements()}, recipe, w.schedule_offset};
  if (!w.in_forward) out.bits = bit_schedule{g.start_bits, g.target_bits, g.period, w.mixed ? w.change_ratio : 0};
  if (tensor.split.degree == 1 || !tensor.cut.parameters[*l.weight].cuts()) return out;
  const auto& cut = tensor.cut.parameters[*l.weight];
  const bool ternary = g.target_bits == 2 || (out.bits && g.target_bits < 2 && g.start_bits >= 2);
  out.shares = shares_of(recipe, whole, table.parameters[*l.weight], cut, tensor.split.degree, ternary);
  out.use.room_elements = out.shares.front().room_elements();
  out.use.ranges = agreed_ranges(out.shares);
  out.use.told_twice = ternary && out.use.ranges > 0;
  return out;
}

core::result<void> choose_weights(const config::job_config& c, const core::model_table& table,
                                  const chosen_tensor& tensor, chosen_compression& out) {
  const auto& w = c.compression.weights;
  if (!w.enabled) return {};
  const technique t{"compression_training.weight_quantization", w.where};
  const auto take = [&](const config::weight_group& g, uint32_t layer) -> core::result<void> {
    TROUPE_ASSIGN(auto module, module_from(w, g, table, tensor, layer));
    out.modules.push_back(std::move(module));
    return {};
  };
  TROUPE_TRY(choose(t, w.groups, table, is_compressible, take));
  std::ranges::sort(out.modules, {}, &compressed_module::use);
  return {};
}

core::result<void> choose_inputs(const config::job_config& c, const core::model_table& table,
                                 const chosen_tensor& tensor, std::optional<uint64_t> rows, chosen_compression& out) {
  const auto& a = c.compression.activations;
  if (!a.enabled) return {};
  const technique t{"compression_training.activation_quantization", a.where};
  if (!rows)
    return refused(a.where, t.key + ".shared_parameters.enabled",
                   "cannot be combined with a host program's own modules, whose matrix products Troupe does not "
                   "compute; set it to "
                   "false");
  const auto is_linear = [](const core::layer_info& l) {
    return l.kind == core::layer_kind::linear && is_compressible(l);
  };
  const auto take = [&](const config::activation_group& g, uint32_t layer) -> core::result<void> {
    const auto& l = table.layers[layer];
    if (!a.is_static && tensor.split.degree > 1 && tensor.cut.parameters[*l.weight].style == core::tp_style::row)
      return core::fail(
          core::error_kind::bad_input,
          "wanted range_calibration static, because tensor ranks split the inputs of this layer, got dynamic");
    TROUPE_ASSIGN(const auto grid, kernels::activation_quantiser(g.bits, a.type == config::grid_type::symmetric));
    const uint64_t room_bytes = *rows * l.in * core::size_of(c.parameter_dtype());
    out.layers.push_back({l.name, g.name, {layer, room_bytes}, grid, a.schedule_offset, a.is_static});
    return {};
  };
  TROUPE_TRY(choose(t, a.groups, table, is_linear, take));
  std::ranges::sort(out.layers, {}, &compressed_layer::use);
  return {};
}

/// Merges the entries of several techniques for the same unit and parameter: scratch space is the largest of any
/// technique, masks and ranges are added.
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
    out.back().ranges += x.ranges;
    out.back().told_twice |= x.told_twice;
    out.back().learns |= x.learns;
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
  for (const auto& l : layers)
    if (l.is_static) out.calibrated.push_back(l.use.layer);
  for (const auto& m : pruned) {
    if (m.from_update > updates) continue;
    const bool learns = m.score_parameter.has_value();
    // Bytes of the module's mask, of the combined mask of its weight, and of the ranges that backward needs again.
    uint64_t bytes = mask_bytes_of(m.scores()) + mask_bytes_of(m.elements_of(m.weight));
    if (const auto* on_grid = module_of(m.unit, m.weight); learns && on_grid != nullptr)
      bytes += on_grid->use.ranges * on_grid->shares.size() * sizeof(kernels::value_range<double>);
    const auto prune = [&](uint32_t q, uint64_t masks) {
      out.weights.push_back({.unit = m.unit, .parameter = q, .mask_bytes = masks, .learns = learns});
    };
    prune(m.weight, bytes);
    if (m.bias) prune(*m.bias, mask_bytes_of(m.elements_of(*m.bias)));
    for (const auto& v : m.along)
      out.weights.push_back({.unit = v.unit,
                             .parameter = v.parameter,
                             .mask_bytes = mask_bytes_of(m.matrix.rows),
                             .learns = learns && v.unit == m.unit});
  }
  join_uses(out.weights);
  return out;
}

kernels::weight_moment compressed_module::after(uint64_t updates, uint64_t seed, uint32_t parameter) const {
  kernels::weight_moment out;
  if (recipe.stochastic) out.noise = kernels::rounding_key{seed, updates, parameter};
  if (!bits) return out;
  const moved_bits now = bits_in_step(*bits, updates - from_update + 1);
  out.grid = kernels::weight_quantiser(now.bits, recipe.grid.kind != kernels::quantiser_kind::asymmetric).value();
  out.kept = now.kept;
  return out;
}

const compressed_module* chosen_compression::module_of(uint32_t unit, uint32_t parameter) const {
  const auto at = std::ranges::lower_bound(modules, plan::compressed_use{unit, parameter}, {}, &compressed_module::use);
  const bool is_there = at != modules.end() && at->use.unit == unit && at->use.parameter == parameter;
  return is_there ? &*at : nullptr;
}

const compressed_layer& chosen_compression::layer_of(uint32_t layer) const {
  return *std::ranges::lower_bound(layers, layer, {}, [](const compressed_layer& l) { return l.use.layer; });
}

void chosen_compression::follow(std::span<const kernels::value_range<double>> seen,
                                std::vector<kernels::activation_range>& ranges) const {
  if (seen.empty()) return;
  ranges.resize(layers.size());
  size_t k = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (!layers[i].is_static) continue;
    const auto& now = seen[k++];
    if (std::isfinite(now.least) && std::isfinite(now.largest)) kernels::follow(ranges[i], now);
  }
}

core::result<chosen_compression> choose_compression(const config::job_config& config, const core::model_table& table,
                                                    const chosen_tensor& tensor, std::optional<uint64_t> rows) {
  chosen_compression out;
  TROUPE_TRY(choose_weights(config, table, tensor, out));
  TROUPE_TRY(choose_inputs(config, table, tensor, rows, out));
  TROUPE_ASSIGN(auto pruned, choose_pruning(config, *tensor.whole));
  out.pruned = std::move(pruned);
  for (auto& m : out.pruned) {
    m.shares = shares_of(m, tensor);
    if (m.shares.empty() || m.along.empty()) continue;
    const auto& c = config.compression;
    return refused(
        m.part == pruned_part::rows ? c.rows.where : c.channels.where,
        "compression_training." + std::string(name_of(m.part)) + ".different_groups." + m.group + ".related_modules",
        "wanted no norms with parallel.tensor, which shards " + m.module + ", got some");
  }
  return out;
}

}  // namespace troupe::job
