// Owns `troupe plan --layers`: the modules of a model according to its table.
#include "apps/plan/plan_parts.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/base/exit_code.hpp"
#include "core/text.hpp"
#include "job/model/configured_model.hpp"
#include "job/step/optimizer_groups.hpp"

namespace troupe::apps {
namespace {

using core::layer_info;
using json = nlohmann::ordered_json;

std::string width_text(uint64_t width) { return width == 0 ? "-" : fmt::to_string(width); }

/// Returns the names of a layer's parameters as text, such as "weight, bias".
std::string parameters_text(const core::model_table& table, const layer_info& l) {
  std::string out;
  for (const uint32_t q : l.parameters) {
    const auto& p = table.parameters[q];
    const bool own = p.name.starts_with(l.name + ".");
    out += fmt::format("{}{}{}", out.empty() ? "" : ", ", own ? p.name.substr(l.name.size() + 1) : p.name,
                       p.trainable ? "" : " (frozen)");
  }
  return out.empty() ? "-" : out;
}

std::string heads_text(const layer_info& l) {
  if (l.heads == 0 && l.kv_heads == 0) return "-";
  if (l.kv_heads == 0) return fmt::to_string(l.heads);
  return fmt::format("{} + {}", l.heads == 0 ? "-" : fmt::to_string(l.heads), l.kv_heads);
}

std::string parts_text(const layer_info& l) {
  std::string out;
  for (const auto& part : l.parts)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", core::name_of(part.role), part.width);
  return out.empty() ? "-" : out;
}

json parameter_json(const core::model_table& table, uint32_t q) {
  const auto& p = table.parameters[q];
  return {{"name", p.name}, {"index", q}, {"shape", p.shape}, {"trained", p.trainable}};
}

json layer_json(const core::model_table& table, const layer_info& l) {
  const auto one = [&](std::optional<uint32_t> q) { return q ? parameter_json(table, *q) : json(); };
  json out{{"name", l.name},
           {"kind", core::name_of(l.kind)},
           {"unit", table.units[l.unit].name},
           {"segment", table.units[l.unit].segments[l.segment].name},
           {"weight", one(l.weight)},
           {"bias", one(l.bias)}};
  const auto is_named = [&](uint32_t q) { return q == l.weight || q == l.bias; };
  for (const uint32_t q : l.parameters)
    if (!is_named(q)) out["others"].push_back(parameter_json(table, q));
  if (l.in > 0) out["in"] = l.in;
  if (l.out > 0) out["out"] = l.out;
  if (l.layout) out["stored"] = core::name_of(*l.layout);
  if (l.heads > 0) out["heads"] = l.heads;
  if (l.kv_heads > 0) out["kv_heads"] = l.kv_heads;
  for (const auto& part : l.parts) out["parts"].push_back({{"role", core::name_of(part.role)}, {"width", part.width}});
  return out;
}

}  // namespace

std::string layers_as_table(const core::model_table& table) {
  std::vector<std::vector<std::string>> rows{
      {"unit", "layer", "kind", "in", "out", "stored", "parameters", "heads + key-value", "parts"}};
  for (const auto& l : table.layers)
    rows.push_back({table.units[l.unit].name, l.name, std::string(core::name_of(l.kind)), width_text(l.in),
                    width_text(l.out), l.layout ? std::string(core::name_of(*l.layout)) : "-",
                    parameters_text(table, l), heads_text(l), parts_text(l)});
  return core::aligned(rows);
}

std::string layers_as_json(const core::model_table& table) {
  json out = json::array();
  for (const auto& l : table.layers) out.push_back(layer_json(table, l));
  return out.dump(2) + "\n";
}

int show_layers(const config::job_config& config, output_form form) {
  const auto refuse = [](const core::error& e) {
    failed(e);
    return 2;  // any error is in the model's files, which are input
  };
  const auto model = job::read_model(config);
  if (!model) return refuse(model.error());
  // Smallest batch sizes suffice, since layers do not depend on them.
  auto table = models::make_model_table(model->spec, 1, 1, core::size_of(config.parameter_dtype()));
  if (auto ok = job::freeze(config, table); !ok) return refuse(ok.error());
  std::printf("%s", (form == output_form::json ? layers_as_json(table) : layers_as_table(table)).c_str());
  return 0;
}

}  // namespace troupe::apps
