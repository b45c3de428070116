#include "job/compression/mask_scores.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace troupe::job {
namespace {

constexpr std::array<std::string_view, 4> suffixes{".sparse_mask_scores", ".row_mask_scores", ".head_pruning_scores",
                                                   ".channel_mask_scores"};

std::vector<int64_t> shape_of(const pruned_module& m, const core::parameter_info& weight) {
  const auto rows = static_cast<int64_t>(m.matrix.rows);
  switch (m.part) {
    case pruned_part::elements:
      return m.matrix.transposed ? std::vector<int64_t>{rows, static_cast<int64_t>(m.matrix.columns)} : weight.shape;
    case pruned_part::heads:
      return {1, static_cast<int64_t>(m.heads)};
    case pruned_part::channels:
      return {rows, 1, 1, 1};
    case pruned_part::rows:
      break;
  }
  return {rows, 1};
}

auto layer_of(core::model_table& table, uint32_t unit, const std::string& module) {
  return std::ranges::find_if(table.layers, [&](const auto& l) { return l.unit == unit && l.name == module; });
}

}  // namespace

std::string score_name(std::string_view module, pruned_part part) {
  return std::string(module).append(suffixes[static_cast<size_t>(part)]);
}

bool is_score_name(std::string_view name) {
  return std::ranges::any_of(suffixes, [&](std::string_view s) { return name.ends_with(s); });
}

float first_scores_within(const core::parameter_info& scores) {
  const auto fan_in = static_cast<double>(scores.numel()) / static_cast<double>(scores.shape[0]);
  return static_cast<float>(1 / std::sqrt(fan_in));
}

core::result<void> add_scores(const config::job_config& config, core::model_table& table) {
  const auto& c = config.compression;
  const bool learns = std::ranges::any_of(std::array{&c.sparse, &c.rows, &c.heads, &c.channels}, [](const auto* s) {
    return s->enabled && s->method == config::pruning_method::topk;
  });
  if (!learns) return {};
  TROUPE_ASSIGN(const auto chosen, choose_pruning(config, table));
  for (const auto& m : chosen) {
    if (m.method != config::pruning_method::topk) continue;
    core::parameter_info info;
    info.name = score_name(m.module, m.part);
    info.shape = shape_of(m, table.parameters[m.weight]);
    info.init_std = 0;
    // If several units read the module, the first of them has added the scores, and all units read the same scores.
    const auto known = std::ranges::find(table.parameters, info.name, &core::parameter_info::name);
    const auto scores = static_cast<uint32_t>(known - table.parameters.begin());
    if (known == table.parameters.end()) table.parameters.push_back(std::move(info));
    table.add_to(*layer_of(table, m.unit, m.module), scores);
  }
  return {};
}

void add_scores_of(const core::model_table& whole, core::model_table& own) {
  for (auto q = static_cast<uint32_t>(own.parameters.size()); q < whole.parameters.size(); ++q) {
    own.parameters.push_back(whole.parameters[q]);
    for (const core::layer_info& l : whole.layers) {
      if (std::ranges::find(l.parameters, q) == l.parameters.end()) continue;
      auto& layer = *layer_of(own, l.unit, l.name);
      if (own.parameters[*layer.weight].share != core::tensor_share::alike)
        own.parameters[q].share = core::tensor_share::summed;
      own.add_to(layer, q);
    }
  }
  own.note_frozen();
}

core::model_table without_scores(core::model_table table) {
  const auto is_score = [](const core::parameter_info& p) { return is_score_name(p.name); };
  const auto first = std::ranges::find_if(table.parameters, is_score);
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
  for (auto& layer : table.layers) strip(layer.parameters);
  // The copies of tied parameters are stored after the scores, so they are removed with them.
  table.parameters.erase(first, table.parameters.end());
  return table;
}

}  // namespace troupe::job
