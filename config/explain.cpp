#include "config/explain.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "config/values.hpp"

namespace troupe::config {
namespace {

using nlohmann::ordered_json;

std::string effect_text(const key_info& row) {
  if (!row.refusal.empty()) return "never accepted";
  if (row.acts == effect::no_effect) return fmt::format("no effect: {}", row.reason);
  return row.only ? fmt::format("acts; only {} in this version", *row.only) : "acts";
}

/// A tree of YAML texts by their dotted keys, in order.
void put(ordered_json& tree, std::string_view key, std::string value) {
  ordered_json* at = &tree;
  for (size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.')) {
    at = &(*at)[std::string(key.substr(0, dot))];
    key.remove_prefix(dot + 1);
  }
  (*at)[std::string(key)] = std::move(value);
}

void write(const ordered_json& tree, int indent, std::string& out) {
  for (const auto& [key, value] : tree.items()) {
    out += fmt::format("{:{}}{}:", "", indent, key);
    if (value.is_object()) {
      out += "\n";
      write(value, indent + 2, out);
    } else {
      out += fmt::format(" {}\n", value.get<std::string>());
    }
  }
}

}  // namespace

std::string explain(const loaded& what, bool json) {
  ordered_json list = ordered_json::array();
  std::string text;
  for (const effective_value& v : what.values) {
    if (json) {
      list.push_back({{"key", v.key},
                      {"value", v.value},
                      {"origin", v.origin},
                      {"meaning", v.row->meaning},
                      {"effect", v.row->acts == effect::acts ? "acts" : "no_effect"},
                      {"reason", v.row->reason}});
    } else {
      text +=
          fmt::format("{} = {}  ({})\n    {} [{}]\n", v.key, v.value, v.origin, v.row->meaning, effect_text(*v.row));
    }
  }
  return json ? list.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n" : text;
}

std::string effective_yaml(const loaded& what) {
  ordered_json tree = ordered_json::object();
  const job_config& c = what.config;
  for (const key_info& row : key_table()) {
    if (row.key == "model" && !c.model.hugging_face_json.empty()) {
      const ordered_json model = ordered_json::parse(c.model.hugging_face_json);
      for (const auto& [key, value] : model.items()) put(tree, fmt::format("model.{}", key), value.dump());
    }
    if (!row.has_field() || std::holds_alternative<model_key>(row.into_field)) continue;
    if (row.section() == "scheduler.params" && c.scheduler.type.empty()) continue;
    std::string text = field_text(row, c);
    if (text != "none") put(tree, row.key, std::move(text));
  }
  std::string out = "# The effective configuration of a run: loads to the same run from any folder.\n";
  write(tree, 0, out);
  return out;
}

}  // namespace troupe::config
