#include "job/compression/pruning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "job/compression/mask_scores.hpp"
#include "job/compression/module_choice.hpp"
#include "job/compression/related_modules.hpp"
#include "job/compression/snip_rule.hpp"
#include "kernels/compress/pruning.hpp"

namespace troupe::job {
namespace {

using core::layer_kind;

bool fits(pruned_part part, const core::layer_info& l) {
  const bool is_linear = l.kind == layer_kind::linear && l.layout.has_value();
  // Transposed convolutions have their filters along the second dimension.
  const bool is_filter = l.kind == layer_kind::convolution && l.layout == core::weight_layout::out_in;
  if (!l.weight) return false;
  switch (part) {
    case pruned_part::elements:
      return is_linear || is_filter;
    case pruned_part::channels:
      return is_filter;
    case pruned_part::rows:
    case pruned_part::heads:
      return is_linear;
  }
  return false;
}

kernels::masked_matrix matrix_of(const core::layer_info& l, const core::parameter_info& weight) {
  const auto first = static_cast<uint64_t>(weight.shape[0]), others = weight.numel() / first;
  if (l.layout == core::weight_layout::in_out) return {others, first, true};
  return {first, others, false};
}

core::result<pruned_module> pruned(const config::pruning_section& p, pruned_part part, const config::pruned_group& g,
                                   const core::layer_info& l, const core::model_table& table) {
  pruned_module out{l.name, g.name, part, p.method, l.unit, *l.weight, {}, {}, 0, 0, p.schedule_offset};
  out.matrix = matrix_of(l, table.parameters[*l.weight]);
  if (part == pruned_part::rows || part == pruned_part::channels) out.bias = l.bias;
  if (part == pruned_part::heads) {
    out.heads = p.num_heads.value_or(0);
    if (out.heads == 0 || out.matrix.columns % out.heads != 0 || (l.heads != 0 && l.heads != out.heads))
      return core::fail(
          error_kind::bad_input,
          fmt::format("wanted num_heads to match its {}{}, got {}", l.heads != 0 ? l.heads : out.matrix.columns,
                      l.heads != 0 ? " heads" : " inputs, which it must divide", out.heads));
  }
  TROUPE_ASSIGN(const auto kept, kernels::kept_of(g.dense_ratio, out.scores()));
  out.kept = kept;
  if (p.method == config::pruning_method::snip_momentum) {
    TROUPE_TRY(snip_rule_of(p, g.dense_ratio, out.matrix));
  }
  const auto& all = table.parameters;
  if (p.method != config::pruning_method::l1 && !all[out.weight].trainable)
    return core::fail(error_kind::bad_input,
                      "wanted a weight that is trained, as its scores are learned, got a frozen one");
  if (p.method != config::pruning_method::topk) return out;
  const auto is_score = [&, name = score_name(l.name, part)](uint32_t q) {
    return all[table.original(q)].name == name;
  };
  // If several units read the module, the layer may have a copy of the scores instead of the original.
  const auto at = std::ranges::find_if(l.parameters, is_score);
  if (at != l.parameters.end()) out.score_parameter = *at;
  return out;
}

/// Adds the norms after the module to its pruned vectors: a norm would otherwise output nonzero values for removed
/// elements.
core::result<void> take_norms_along(const config::pruning_section& section, pruned_module& m, module_pairs& pairs,
                                    const core::model_table& table) {
  const auto g = std::ranges::find(section.groups, m.group, &config::pruned_group::name);
  if (g->related.empty() || (m.part != pruned_part::rows && m.part != pruned_part::channels)) return {};
  TROUPE_ASSIGN(const auto related, pairs.related(m, *g, pairing_reach::model));
  for (const core::layer_info* l : related) {
    if (l->kind != layer_kind::norm || !l->weight) continue;
    if (const uint64_t width = table.parameters[*l->weight].numel(); width != m.matrix.rows)
      return refused(g->where, related_key(m),
                     fmt::format("norms must have as many elements as {} has rows, {}; {} has {}", m.module,
                                 m.matrix.rows, l->name, width));
    if (m.method == config::pruning_method::topk && l->unit != m.unit)
      return refused(
          g->where, related_key(m),
          "wanted norms in the unit of " + m.module + ", the only unit that reads its scores, got " + l->name);
    for (const uint32_t q : l->parameters) m.along.push_back({l->unit, q});
  }
  return {};
}

/// Returns the names of the model's modules that match at least one of the patterns.
core::result<std::vector<std::string>> layers_named(const std::vector<std::string>& patterns,
                                                    const core::model_table& table) {
  std::vector<std::string> out;
  for (const std::string& pattern : patterns) {
    TROUPE_ASSIGN(const auto found, layers_found(pattern, table));
    for (const size_t i : found) out.push_back(table.layers[i].name);
  }
  return out;
}

}  // namespace

std::string_view name_of(pruned_part part) {
  constexpr std::string_view names[] = {"sparse_pruning", "row_pruning", "head_pruning", "channel_pruning"};
  return names[static_cast<size_t>(part)];
}

uint64_t pruned_module::elements_of(uint32_t parameter) const {
  if (shares.empty()) return parameter == bias ? matrix.rows : matrix.elements();
  uint64_t out = 0;
  // The sum is equal for all tensor coordinates, so coordinate 0 suffices.
  for (const auto& run : runs_of(parameter, 0)) out += run.count;
  return out;
}

std::span<const core::tp_run> pruned_module::runs_of(uint32_t parameter, uint32_t coordinate) const {
  if (shares.empty()) return {};
  return parameter == bias ? shares[coordinate].bias : shares[coordinate].weight;
}

core::result<std::vector<pruned_module>> choose_pruning(const config::job_config& config,
                                                        const core::model_table& table) {
  const auto& c = config.compression;
  std::vector<pruned_module> out;
  const std::pair<pruned_part, const config::pruning_section*> all[] = {{pruned_part::elements, &c.sparse},
                                                                        {pruned_part::rows, &c.rows},
                                                                        {pruned_part::heads, &c.heads},
                                                                        {pruned_part::channels, &c.channels}};
  for (const auto& [part, section] : all) {
    if (!section->enabled) continue;
    const technique t{"compression_training." + std::string(name_of(part)), section->where};
    const auto take = [&, part = part, section = section](const config::pruned_group& g,
                                                          uint32_t layer) -> core::result<void> {
      TROUPE_ASSIGN(auto made, pruned(*section, part, g, table.layers[layer], table));
      out.push_back(std::move(made));
      return {};
    };
    const auto excluded = layers_named(section->excluded, table);
    if (!excluded) return refused(t.where, t.key + ".shared_parameters.excluded_modules", excluded.error().text);
    const auto is_fit = [&, part = part](const core::layer_info& l) {
      return fits(part, l) && std::ranges::find(*excluded, l.name) == excluded->end();
    };
    const size_t before = out.size();
    TROUPE_TRY(choose(t, section->groups, table, is_fit, take));
    const std::span<const pruned_module> of_part = std::span<const pruned_module>(out).subspan(before);
    module_pairs pairs(of_part, table);
    for (size_t i = before; i < out.size(); ++i) TROUPE_TRY(take_norms_along(*section, out[i], pairs, table));
  }
  uint64_t snipped = 0;
  for (const auto& m : out)
    if (m.method == config::pruning_method::snip_momentum) snipped += m.scores();
  if (snipped > max_snip_elements)
    return refused(
        c.sparse.where, "compression_training.sparse_pruning.shared_parameters.method",
        fmt::format("wanted snip_momentum on at most {} elements, because a checkpoint stores a score for each, got {}",
                    max_snip_elements, snipped));
  std::ranges::stable_sort(out, {}, [](const pruned_module& m) { return std::tuple(m.unit, m.weight, m.part); });
  return out;
}

}  // namespace troupe::job
