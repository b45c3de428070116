#include "config/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/document/yaml_tree.hpp"
#include "config/keys/idle.hpp"
#include "config/keys/values.hpp"
#include "config/waiting.hpp"

namespace troupe::config {
namespace {

using nlohmann::ordered_json;

/// Returns the reason in the warning that a given key has no effect, which a run shows as well; empty if there is none.
std::string warned_reason(const loaded& what, std::string_view key) {
  constexpr std::string_view begin = "no effect: ";
  for (const diagnostic& d : what.warnings)
    if (d.key == key && d.text.starts_with(begin)) return d.text.substr(begin.size());
  return {};
}

/// Returns the reason why a key that has an effect in other configurations has none in this one; empty if it has an
/// effect. If degrees are open, the key may have an effect with one of their choices.
std::string idle_in(const effective_value& v, const loaded& what) {
  const job_config& c = what.config;
  if (v.row->support.acts != effect::acts) return {};
  std::string why = idle(*v.row, c);
  for (const degree_choice& taken : c.open_degrees)
    if (!why.empty() && taken.refusal.empty()) why = idle(*v.row, c.with(taken));
  return why.empty() ? warned_reason(what, v.key) : why;
}

std::string effect_text(const effective_value& v, const loaded& what) {
  const key_info& row = *v.row;
  if (const std::string why = idle_in(v, what); !why.empty()) return "no effect: " + why;
  std::string text = v.held_back ? effect_beyond(row) : effect_of(row);
  if (!row.support.only.empty() && row.support.acts == effect::acts && !v.held_back)
    text += fmt::format("; only {} in this version", row.support.only.front());
  return text;
}

std::string_view effect_name(const effective_value& v, const loaded& what) {
  if (!idle_in(v, what).empty()) return "no_effect";
  const bool waits = v.row->support.acts == effect::when_there || (v.held_back && !v.row->support.capability.empty());
  return v.row->support.acts == effect::no_effect ? "no_effect"
         : waits                                  ? "acts_when"
         : v.held_back                            ? "no_effect"
                                                  : "acts";
}

bool is_batch_key(std::string_view key) {
  return key == "train_batch_size" || key == "train_micro_batch_size_per_gpu" || key == "gradient_accumulation_steps";
}

bool is_given(const loaded& what, std::string_view key) { return std::ranges::binary_search(what.given, key); }

/// True if the run chooses the key's value together with its open degrees, the parallel degrees that are `auto`.
bool is_open(const loaded& what, std::string_view key) {
  if (what.config.open_degrees.empty()) return false;
  const auto at = std::ranges::find(what.values, key, &effective_value::key);
  return at != what.values.end() && at->value == "auto";
}

/// Returns pointers to the effective values of all keys or of the given keys, in the order of the key table.
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
                        effect_text(*v, what));
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
         {"effect", effect_name(*v, what)},
         {"capability", v->row->support.capability},
         {"reason", v->row->support.reason.empty() ? idle_in(*v, what) : std::string(v->row->support.reason)}});
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

namespace {

/// True if `none` is one of the key's choices, so that it does not mean that no value was given.
bool has_choice_none(const key_info& row) {
  const auto& names = row.choices.names;
  return std::ranges::find(names, "none") != names.end();
}

/// Returns the value as YAML: `null` if no value was given and no choice is named `none`.
std::string given_text(const effective_value& v) {
  if (v.origin == "auto") return "auto";
  return v.value == "none" && v.row->nullable() && !has_choice_none(*v.row) ? "null" : v.value;
}

/// True if `text`, a key's value, is one that differs from the absence of a value.
bool is_a_value(const key_info& row, const std::string& text) {
  return text != "none" || (has_choice_none(row) && row.default_text != "none");
}

/// Returns a plain DeepSpeed configuration as YAML. Contains only the given keys, because such a configuration
/// describes no run.
std::string given_yaml(const loaded& what) {
  yaml_tree tree;
  for (const effective_value& v : what.values)
    if (is_given(what, v.key)) tree.put(v.key, given_text(v));
  return "# What a DeepSpeed configuration gives.\n" + tree.text();
}

/// True if the YAML of a run omits the key: the key has no field, belongs to a `type` of optimizer or scheduler or to a
/// section that the run does not use, or was not given although its presence alone has an effect.
bool is_left_out(const key_info& row, const job_config& c) {
  if (!row.has_field() || std::holds_alternative<model_key>(row.target.field)) return true;
  if (row.section() == "scheduler.params" && !row.read_by(core::name_of(c.scheduler.type))) return true;
  if (row.section() == "optimizer.params" && !row.read_by(core::name_of(c.optimizer.type))) return true;
  if (row.section() == "zero_optimization.zenflow" && !c.zero_optimization.zenflow.enabled) return true;
  if (row.target.told != nullptr && !was_told(row, c)) return true;
  if (row.key == "sample.prompt" && !c.sample.question.empty()) return true;  // the question takes its place
  // Elasticity determines the batch sizes, and a file with given batch sizes would be refused.
  return c.elasticity.enabled && is_batch_key(row.key);
}

void put_model(const job_config& c, yaml_tree& tree) {
  if (c.model.hugging_face_json.empty()) return;
  const ordered_json model = ordered_json::parse(c.model.hugging_face_json);
  for (const auto& [key, value] : model.items())
    tree.put("model." + part_of_key(key), value.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
}

void put_row(const loaded& what, const key_info& row, yaml_tree& tree) {
  const job_config& c = what.config;
  if (row.key == "model") put_model(c, tree);
  if (row.is_list()) {
    if (const size_t items = row.target.items(c); items > 0) tree.put_list(row.list_name(), items);
    return;
  }
  // job_config has no fields for names of groups, so the text contains the values that the file gives
  if (!row.has_field() && row.key.starts_with("compression_training.") && row.any_name())
    for (const effective_value& v : what.values)
      if (v.row == &row && !v.held_back && v.value != "none") tree.put(v.key, v.value);
  if (is_left_out(row, c)) return;
  const key_info* list = row.in_list() ? key_named(row.section()) : nullptr;
  for (size_t i = 0; i < (list == nullptr ? 1 : list->target.items(c)); ++i) {
    std::string text = field_text(row, c, i);
    const std::string key = list == nullptr ? row.key : fmt::format("{}[{}].{}", list->list_name(), i, row.name());
    if (is_open(what, key)) text = "auto";
    if (is_a_value(row, text)) tree.put(key, std::move(text));
  }
}

}  // namespace

std::vector<listed_setting> listed_settings(const job_config& job) {
  std::vector<listed_setting> out;
  if (!job.model.hugging_face_json.empty()) {
    const ordered_json model = ordered_json::parse(job.model.hugging_face_json);
    for (const auto& [key, value] : model.items())
      out.push_back({"model." + key, value.dump(-1, ' ', false, ordered_json::error_handler_t::replace), false});
  }
  for (const key_info& row : key_table()) {
    if (!row.has_field() || std::holds_alternative<model_key>(row.target.field) || row.any_name()) continue;
    const bool is_out = is_left_out(row, job);
    const std::string text = is_out ? row.default_text : field_text(row, job);
    // The rate and the other parameters of the optimizer and of its schedule are what runs are compared by.
    const bool is_compared = row.section() == "optimizer.params" || row.section() == "scheduler.params";
    const bool is_same = text == row.default_text || text == quoted(row.default_text);
    out.push_back({row.key, text, is_out || !is_a_value(row, text) || (is_same && !is_compared)});
  }
  return out;
}

std::string effective_yaml(const loaded& what) {
  if (what.deepspeed_only) return given_yaml(what);
  yaml_tree tree;
  for (const key_info& row : key_table()) put_row(what, row, tree);
  return "# The effective configuration of a run: loads to the same run from any folder.\n" + tree.text();
}

}  // namespace troupe::config
