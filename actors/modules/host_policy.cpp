#include "actors/modules/host_policy.hpp"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/inject/layer_policy.hpp"

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
    return core::fail(refused(
        where, fmt::format("partition_dim: wanted {} for {}, got {}", dimension, name_of(spec.type), *spec.dimension)));
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

/// Returns the rules for splitting the model that DeepSpeed's preset `preset` names, from the table of layer policies.
core::result<std::vector<models::injection_rule>> rules_of_preset(const std::string& preset) {
  const auto policy = models::layer_policy_of_preset(preset);
  if (!policy) return core::fail(refused(section_key, "preset_model: " + policy.error().text));
  return models::tensor_rules(*policy);
}

/// Returns the policy that the keys partition_config, preset_model and injection_policy_tuple of section
/// tensor_parallel describe; nullopt if none is given.
core::result<std::optional<models::injection_policy>> said_policy(const config::tensor_parallel_section& t) {
  if (!t.partition.given && t.rows.empty() && t.preset_model.empty()) return std::optional<models::injection_policy>();
  models::injection_policy out;
  for (const layer_spec& spec : t.partition.specs) {
    // a rule for named model families does not apply to the host program's model
    if (!spec.model_types.empty()) continue;
    TROUPE_ASSIGN(auto rule, rule_from(spec));
    out.rules.push_back(std::move(rule));
  }
  if (!t.preset_model.empty() && (!t.partition.given || t.partition.use_default_specs)) {
    TROUPE_ASSIGN(auto rules, rules_of_preset(t.preset_model));
    out.rules.insert(out.rules.end(), rules.begin(), rules.end());
  }
  out.strict = t.partition.strict_mode;
  out.rows = t.rows;
  return std::optional(std::move(out));
}

}  // namespace

core::result<std::function<models::module_model(models::module_model)>> policy_of(const config::job_config& c) {
  const auto& t = c.tensor_parallel;
  const bool cuts = c.parallel.tensor > 1, guesses = cuts && (c.degrees.autotp_size > 1 || c.degrees.tp_size > 1);
  std::optional<models::injection_policy> said;
  if (cuts) {
    TROUPE_ASSIGN(auto read, said_policy(t));
    said = std::move(read);
  }
  if (!said && !guesses && !t.own_layers && !(cuts && t.vocabulary_head)) return {};
  return [t, cuts, guesses, said](models::module_model model) {
    models::injection_policy policy;
    if (said) {
      policy = *said;
      // The configuration says what is cut; what Troupe's layers compute stays the host's choice.
      if (model.policy != nullptr) policy.own_layers = model.policy->own_layers;
      if (model.policy != nullptr) policy.blocks = model.policy->blocks;
    } else if (model.policy != nullptr) {
      policy = *model.policy;
    } else {
      policy.heuristic = guesses;
    }
    if (said || model.policy == nullptr) policy.grain = t.grain;
    policy.own_layers = policy.own_layers || t.own_layers;
    if (cuts && t.vocabulary_head && !model.units.empty())
      policy.rules.insert(policy.rules.begin(), {models::exactly(model.units.back().name) + R"((?:\..*)?\.weight$)",
                                                 *t.vocabulary_head ? tp_style::vocabulary : tp_style::replicated});
    return models::inject(std::move(model), std::move(policy));
  };
}

}  // namespace troupe::actors
