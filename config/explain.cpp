#include "config/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/keys/idle.hpp"
#include "config/keys/values.hpp"
#include "config/waiting.hpp"

namespace troupe::config {
namespace {

using nlohmann::ordered_json;

/// Why nothing comes of a key that acts; empty: something does.
std::string idle_in(const effective_value& v, const job_config& c) {
  return v.row->support.acts == effect::acts ? idle(*v.row, c) : std::string();
}

std::string effect_text(const effective_value& v, const job_config& c) {
  const key_info& row = *v.row;
  if (const std::string why = idle_in(v, c); !why.empty()) return "no effect: " + why;
  std::string text = v.held_back ? effect_beyond(row) : effect_of(row);
  if (!row.support.only.empty() && row.support.acts == effect::acts && !v.held_back)
    text += fmt::format("; only {} in this version", row.support.only.front());
  return text;
}

std::string_view effect_name(const effective_value& v, const job_config& c) {
  if (!idle_in(v, c).empty()) return "no_effect";
  const bool waits = v.row->support.acts == effect::when_there || (v.held_back && !v.row->support.capability.empty());
  return v.row->support.acts == effect::no_effect ? "no_effect"
         : waits                                  ? "acts_when"
         : v.held_back                            ? "no_effect"
                                                  : "acts";
}

/// The dot behind the first part of a key, which may stand in quotes; npos: there is one part.
size_t first_dot(std::string_view key) {
  if (!key.starts_with('"')) return key.find('.');
  size_t end = 1;
  while (end < key.size() && key[end] != '"') end += key[end] == '\\' ? 2 : 1;
  return key.find('.', std::min(end, key.size()));
}

/// A tree of YAML texts by their dotted keys, in order.
void put(ordered_json& tree, std::string_view key, std::string value) {
  ordered_json* at = &tree;
  for (size_t dot = first_dot(key); dot != std::string_view::npos; dot = first_dot(key)) {
    at = &(*at)[std::string(key.substr(0, dot))];
    key.remove_prefix(dot + 1);
  }
  (*at)[std::string(key)] = std::move(value);
}

/// Children `name[0]`, `name[1]` are written as a list of that name.
void write(const ordered_json& tree, int indent, std::string& out) {
  for (const auto& [key, value] : tree.items()) {
    const size_t bracket = key.starts_with('"') ? std::string::npos : key.find('[');
    if (bracket != std::string::npos) {
      if (key.substr(bracket) == "[0]") out += fmt::format("{:{}}{}:\n", "", indent, key.substr(0, bracket));
      std::string item;
      write(value, indent + 4, item);
      item[static_cast<size_t>(indent) + 2] = '-';
      out += item;
      continue;
    }
    out += fmt::format("{:{}}{}:", "", indent, key);
    if (value.is_object()) {
      out += "\n";
      write(value, indent + 2, out);
    } else {
      out += fmt::format(" {}\n", value.get<std::string>());
    }
  }
}

bool is_batch_key(std::string_view key) {
  return key == "train_batch_size" || key == "train_micro_batch_size_per_gpu" || key == "gradient_accumulation_steps";
}

bool is_given(const loaded& what, std::string_view key) { return std::ranges::binary_search(what.given, key); }

/// Whether the run chooses the key's value among the ways of its degrees.
bool is_open(const loaded& what, std::string_view key) {
  if (what.config.open_degrees.empty()) return false;
  const auto at = std::ranges::find(what.values, key, &effective_value::key);
  return at != what.values.end() && at->value == "auto";
}

/// The effective values that are asked for, in their order.
std::vector<const effective_value*> values_of(const loaded& what, shown_keys keys) {
  std::vector<const effective_value*> out;
  for (const effective_value& v : what.values)
    if (keys == shown_keys::all || is_given(what, v.key)) out.push_back(&v);
  return out;
}

}  // namespace

std::string explain_text(const loaded& what, shown_keys keys) {
  std::string text;
  for (const effective_value* v : values_of(what, keys))
    text += fmt::format("{} = {}  ({})\n    {} [{}]\n", v->key, v->value, v->origin, v->row->meaning,
                        effect_text(*v, what.config));
  return text;
}

std::string explain_json(const loaded& what, shown_keys keys) {
  ordered_json list = ordered_json::array();
  for (const effective_value* v : values_of(what, keys))
    list.push_back(
        {{"key", v->key},
         {"value", v->value},
         {"origin", v->origin},
         {"meaning", v->row->meaning},
         {"effect", effect_name(*v, what.config)},
         {"capability", v->row->support.capability},
         {"reason", v->row->support.reason.empty() ? idle_in(*v, what.config) : std::string(v->row->support.reason)}});
  ordered_json waiting = ordered_json::array();
  for (const auto& [capability, waiting_keys] : all_waiting()) {
    ordered_json rows = ordered_json::array();
    for (const waiting_key& k : waiting_keys)
      if (keys == shown_keys::all || is_given(what, k.row->key))
        rows.push_back({{"key", k.row->key}, {"values", k.values}});
    if (!rows.empty()) waiting.push_back({{"capability", capability}, {"keys", std::move(rows)}});
  }
  const ordered_json out = {{"values", std::move(list)}, {"waiting", std::move(waiting)}};
  return out.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string as_json(const std::vector<diagnostic>& all) {
  ordered_json list = ordered_json::array();
  for (const diagnostic& d : all)
    list.push_back({{"severity", d.severity == diagnostic::error ? "error" : "warning"},
                    {"file", d.file},
                    {"line", d.line},
                    {"column", d.column},
                    {"key", d.key},
                    {"text", d.text}});
  return list.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

std::string effective_yaml(const loaded& what) {
  ordered_json tree = ordered_json::object();
  const job_config& c = what.config;
  if (what.deepspeed_only) {
    // There is no run to describe: what was given is.
    for (const effective_value& v : what.values)
      if (is_given(what, v.key))
        put(tree, v.key,
            v.origin == "auto"                                                       ? "auto"
            : v.value == "none" && v.row->nullable() && v.row->choices.names.empty() ? "null"
                                                                                     : v.value);
    std::string out = "# What a DeepSpeed configuration gives.\n";
    write(tree, 0, out);
    return out;
  }
  for (const key_info& row : key_table()) {
    if (row.key == "model" && !c.model.hugging_face_json.empty()) {
      const ordered_json model = ordered_json::parse(c.model.hugging_face_json);
      for (const auto& [key, value] : model.items()) put(tree, fmt::format("model.{}", key), value.dump());
    }
    // Groups have names that no field has: what was given is.
    if (!row.has_field() && row.key.starts_with("compression_training.") && row.any_name())
      for (const effective_value& v : what.values)
        if (v.row == &row && !v.held_back && v.value != "none") put(tree, v.key, v.value);
    if (!row.has_field() || std::holds_alternative<model_key>(row.target.field)) continue;
    if (row.section() == "scheduler.params" && !row.read_by(core::name_of(c.scheduler.type))) continue;
    if (row.section() == "optimizer.params" && !row.read_by(core::name_of(c.optimizer.type))) continue;
    if (row.section() == "zero_optimization.zenflow" && !c.zero_optimization.zenflow.enabled) continue;
    if (row.target.told != nullptr && !was_told(row, c)) continue;
    if (c.elasticity.enabled && is_batch_key(row.key)) continue;  // it gives them, and takes none beside it
    const key_info* list = row.in_list() ? key_named(row.section()) : nullptr;
    for (size_t i = 0; i < (list == nullptr ? 1 : list->target.items(c)); ++i) {
      std::string text = field_text(row, c, i);
      const std::string of = list == nullptr ? row.key : fmt::format("{}[{}].{}", list->list_name(), i, row.name());
      if (is_open(what, of)) text = "auto";
      if (text != "none") put(tree, of, std::move(text));
    }
  }
  std::string out = "# The effective configuration of a run: loads to the same run from any folder.\n";
  write(tree, 0, out);
  return out;
}

}  // namespace troupe::config
