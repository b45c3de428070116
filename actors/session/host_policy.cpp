#include "actors/session/host_policy.hpp"

#include <string>
#include <utility>

namespace troupe::actors {
namespace {

using config::layer_spec;
using config::partition_type;
using core::tp_style;

core::error refused(const std::string& where, const std::string& what) {
  return {core::error_kind::bad_input, where + what};
}

const std::string section_key = "tensor_parallel.";

core::result<models::injection_rule> rule_from(const layer_spec& spec) {
  const std::string where = spec.where + ": " + section_key + "partition_config: ";
  models::injection_rule out;
  for (const std::string& pattern : spec.patterns)
    out.pattern += (out.pattern.empty() ? "(?:" : "|(?:") + pattern + ")";
  const bool is_column = spec.type == partition_type::column;
  if (!is_column && spec.gather_output)
    return core::fail(refused(where, "gather_output: wanted false where outputs are not cut, got true"));
  const uint32_t dimension = is_column ? 0 : 1;
  if (spec.type != partition_type::skip && spec.dimension.value_or(dimension) != dimension)
    return core::fail(refused(where, "partition_dim: wanted " + std::to_string(dimension) + " for " +
                                         std::string(name_of(spec.type)) + ", got " + std::to_string(*spec.dimension)));
  if (is_column) out.style = spec.gather_output ? tp_style::vocabulary : tp_style::column;
  if (spec.type == partition_type::row) out.style = tp_style::row;
  if (spec.shape.empty()) return out;
  const bool says_sizes = spec.shape.size() == 2 && spec.shape[0].nested && !spec.shape[1].nested;
  if (!says_sizes || spec.shape[1].sizes[0] != -1 || out.style != tp_style::column)
    return core::fail(refused(where,
                              "shape: wanted the sizes of a column layer's blocks, as [[64, 16, 16], -1], for a host's "
                              "own layer, got another"));
  out.parts.assign(spec.shape[0].sizes.begin(), spec.shape[0].sizes.end());
  return out;
}

}  // namespace

core::result<std::shared_ptr<const models::injection_policy>> policy_of(const config::tensor_parallel_section& t) {
  if (!t.preset_model.empty())
    return core::fail(refused(section_key,
                              "preset_model: wanted nothing beside a host's own model, as it names modules "
                              "of published ones, got " +
                                  t.preset_model));
  if (!t.partition.given) return nullptr;
  models::injection_policy out;
  for (const layer_spec& spec : t.partition.specs) {
    if (!spec.model_types.empty()) continue;  // of published models
    auto rule = rule_from(spec);
    if (!rule) return core::fail(rule.error());
    out.rules.push_back(std::move(*rule));
  }
  out.strict = t.partition.strict_mode;
  out.grain = t.grain;
  return std::make_shared<const models::injection_policy>(std::move(out));
}

}  // namespace troupe::actors
