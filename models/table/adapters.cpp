#include "models/table/adapters.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace troupe::models {
namespace {

constexpr double flops_of_multiply_add = 2.0;

/// Appends the matrices of the adapter of `layer` to the table, and makes the layer read them.
void add_adapter(const adapter_spec& spec, uint32_t site, core::layer_info& layer, core::model_table& table) {
  const auto in = static_cast<int64_t>(layer.in), out = static_cast<int64_t>(layer.out);
  const auto rank = static_cast<int64_t>(spec.rank);
  core::parameter_info a;
  a.name = layer.name + std::string(adapter_a);
  a.shape = {rank, in};
  a.init = spec.is_normal ? core::initial_value::normal : core::initial_value::uniform;
  a.init_std = static_cast<float>(spec.is_normal ? 1.0 / spec.rank : 1.0 / std::sqrt(static_cast<double>(in)));
  a.of_adapter = true;
  core::parameter_info b;
  b.name = layer.name + std::string(adapter_b);
  b.shape = {out, rank};
  b.init = core::initial_value::zeros;
  b.of_adapter = true;
  const auto first = static_cast<uint32_t>(table.parameters.size());
  table.parameters.push_back(std::move(a));
  table.parameters.push_back(std::move(b));
  layer.adapter = core::layer_adapter{first, first + 1, spec.scale(), spec.dropout, site};
  table.add_to(layer, first);
  table.add_to(layer, first + 1);
}

/// Adds the costs of an adapter between `in` and `out` elements to its segment: two products per token, and, if
/// backward is split, the two tensors of `rank` elements per token that the weight part reads. A segment in row tiles
/// keeps the adapter's gradients instead, and needs one more output of a tile.
void add_costs(double rank, double in, double out, double tokens, uint64_t element_bytes, core::segment_info& segment) {
  const auto bytes = [&](double elements) { return static_cast<uint64_t>(elements) * element_bytes; };
  const double flops = flops_of_multiply_add * tokens * rank * (in + out);
  segment.forward_flops += flops;
  segment.weight_flops += flops;
  segment.weight_bytes += bytes(2 * tokens * rank);
  if (!segment.is_tiled()) return;
  segment.weight_bytes += bytes(rank * (in + out));
  segment.tile_bytes += bytes(static_cast<double>(segment.tile_rows) * (rank + std::max(in, out)));
}

}  // namespace

double adapter_spec::scale() const {
  const auto r = static_cast<double>(rank);
  return alpha / (by_root ? std::sqrt(r) : r);
}

void add_adapters(const adapter_spec& spec, double tokens, uint64_t element_bytes, core::model_table& table) {
  const std::set<std::string_view> adapted(spec.layers.begin(), spec.layers.end());
  const std::set<std::string_view> trained(spec.trained.begin(), spec.trained.end());
  for (core::parameter_info& p : table.parameters) p.trainable = false;
  for (const core::layer_info& l : table.layers)
    if (trained.contains(l.name))
      for (const uint32_t q : l.parameters) table.parameters[q].trainable = true;
  std::vector<uint32_t> sites(table.units.size(), 0);  // [unit]: number of its adapters so far
  for (core::layer_info& l : table.layers) {
    if (!adapted.contains(l.name)) continue;
    add_adapter(spec, sites[l.unit]++, l, table);
    add_costs(spec.rank, static_cast<double>(l.in), static_cast<double>(l.out), tokens, element_bytes,
              table.units[l.unit].segments[l.segment]);
  }
  table.note_frozen();
}

core::model_table without_adapters(core::model_table table) {
  const auto first = std::ranges::find_if(table.parameters, &core::parameter_info::of_adapter);
  if (first == table.parameters.end()) return table;
  const auto own = static_cast<uint32_t>(first - table.parameters.begin());
  const auto strip = [&](std::vector<uint32_t>& all) {
    for (uint32_t& q : all) q = table.original(q);
    std::erase_if(all, [&](uint32_t q) { return q >= own; });
  };
  for (auto& unit : table.units) {
    strip(unit.parameters);
    for (auto& segment : unit.segments) strip(segment.parameters);
  }
  for (auto& layer : table.layers) {
    strip(layer.parameters);
    if (layer.weight) layer.weight = table.original(*layer.weight);
    if (layer.bias) layer.bias = table.original(*layer.bias);
    layer.adapter.reset();
  }
  // The copies of tied parameters are stored after the adapters, so they are removed with them.
  table.parameters.erase(first, table.parameters.end());
  return table;
}

}  // namespace troupe::models
