#include "config/effective.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "config/keys/values.hpp"

namespace troupe::config {
namespace {

/// Returns the value of a key of the model as JSON, with the type of the key: `5e8` becomes an integer for an integer
/// key.
nlohmann::json to_json(const node& value, value_type type) {
  using nlohmann::json;
  switch (value.kind) {
    case node_kind::null:
      return nullptr;
    case node_kind::quoted:
      return value.text;
    case node_kind::plain:
      if (type == value_type::text) return value.text;
      if (const auto flag = boolean_in(value)) return *flag;
      if (type != value_type::number)
        if (const auto n = integer_in(value);
            n && n->magnitude <= uint64_t{INT64_MAX} &&
            (type == value_type::integer || value.text.find_first_of(".eE") == std::string::npos))
          return n->negative ? json(-static_cast<int64_t>(n->magnitude)) : json(n->magnitude);
      if (const auto n = number_in(value)) return *n;
      return value.text;
    case node_kind::sequence: {
      json out = json::array();
      for (const node_ptr& item : value.items) out.push_back(to_json(*item, value_type::any));
      return out;
    }
    case node_kind::mapping: {
      json out = json::object();
      for (const entry& e : value.entries) out[e.name] = to_json(*e.value, value_type::any);
      return out;
    }
  }
  return nullptr;
}

std::string origin_of(const setting& s, const std::vector<source>& sources) {
  if (s.is_auto) return "auto";
  const source& from = sources[s.at.source];
  if (from.kind == source::override_text) return from.name;
  return fmt::format("{}:{}:{}", from.name, s.at.line, s.at.column);
}

/// Names of the batch sizes, some of which follow from the data ranks.
constexpr std::string_view batch_keys[] = {"train_batch_size", "train_micro_batch_size_per_gpu",
                                           "gradient_accumulation_steps"};

}  // namespace

void describe(const settings& given, const origins& derived, const std::vector<source>& sources, loaded& out) {
  std::map<const key_info*, std::vector<const setting*>> by_row;
  for (const auto& [key, s] : given.given) {
    by_row[s.row].push_back(&s);
    if ((s.value != nullptr || s.is_auto || s.row->null_too) && !s.made) out.given.push_back(key);
  }
  for (const key_info& row : key_table()) {
    if (row.type == value_type::section) continue;
    auto& mine = by_row[&row];
    std::ranges::stable_sort(mine, {}, &setting::item);
    const auto filled = derived.find(row.key);
    if (mine.empty() && !row.any_name())
      out.values.push_back(
          {row.key, field_text(row, out.config), false, filled == derived.end() ? "default" : filled->second, &row});
    for (const setting* s : mine) {
      const bool shows_given = s->held_back || !row.has_field() || std::holds_alternative<model_key>(row.target.field);
      effective_value v{s->key, field_text(row, out.config, s->item), s->held_back, origin_of(*s, sources), &row};
      if (shows_given && !s->is_auto) v.value = s->value ? as_yaml(*s->value) : "none";
      if (filled != derived.end()) v.origin = filled->second;
      out.values.push_back(std::move(v));
    }
  }
}

void mark_open(const open_degrees& open, loaded& out) {
  const auto is_open = [&](const effective_value& v) {
    if (std::ranges::any_of(open.keys, [&](const degree_key* k) { return k->key == v.key; })) return true;
    return v.origin == "derived" && std::ranges::find(batch_keys, v.key) != std::end(batch_keys);
  };
  for (effective_value& v : out.values)
    if (is_open(v)) v.value = v.origin = "auto";
}

void take_degrees(const degree_choice& taken, loaded& what) {
  what.config = what.config.with(taken);
  for (effective_value& v : what.values) {
    const bool follows = v.row->section() == "parallel" || std::ranges::find(batch_keys, v.key) != std::end(batch_keys);
    if (!follows || v.value != "auto") continue;
    v.value = field_text(*v.row, what.config);
    v.origin = "chosen";
  }
}

std::string model_as_json(const settings& given) {
  nlohmann::ordered_json model = nlohmann::ordered_json::object();
  for (const key_info& row : key_table()) {
    const auto it = given.given.find(row.key);
    if (!std::holds_alternative<model_key>(row.target.field) || it == given.given.end() || it->second.is_auto) continue;
    model[std::string(row.name())] = it->second.value ? to_json(*it->second.value, row.type) : nlohmann::json();
  }
  return model.empty() ? std::string() : model.dump();
}

}  // namespace troupe::config
