#include "config/schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "config/keys/key_table.hpp"
#include "config/keys/leniency.hpp"
#include "config/keys/values.hpp"
#include "core/json_text.hpp"

namespace troupe::config {
namespace {

using nlohmann::ordered_json;

constexpr const char* integer_pattern = "[+-]?[0-9]+(\\.0*)?([eE]\\+?[0-9]+)?";
constexpr const char* number_pattern = "[+-]?([0-9]+\\.?[0-9]*|\\.[0-9]+)([eE][+-]?[0-9]+)?";

ordered_json one_of_values(ordered_json values) { return {{"enum", std::move(values)}}; }

ordered_json any_of(ordered_json ways) {
  if (ways.size() == 1) return ways.front();
  return {{"anyOf", std::move(ways)}};
}

/// Returns a bound as a JSON integer if it is integral, else as a number.
ordered_json bound(double v) {
  if (v == std::floor(v) && std::fabs(v) < 0x1p63) return static_cast<int64_t>(v);
  return v;
}

void put_range(const key_info& row, ordered_json& out) {
  if (row.range.least) out[row.range.above_least ? "exclusiveMinimum" : "minimum"] = bound(*row.range.least);
  if (row.range.most) out[row.range.below_most ? "exclusiveMaximum" : "maximum"] = bound(*row.range.most);
}

ordered_json number_of(const key_info& row, const char* type) {
  ordered_json out = {{"type", type}};
  put_range(row, out);
  return out;
}

/// Returns the schema of an integer within its range and the limits of its field's type.
ordered_json integer_of(const key_info& row) {
  ordered_json out = number_of(row, "integer");
  const auto& field = row.target.field;
  const bool is_32 = std::holds_alternative<field_of<uint32_t>>(field);
  const bool is_64 = std::holds_alternative<field_of<uint64_t>>(field) ||
                     std::holds_alternative<field_of<std::optional<uint64_t>>>(field);
  const bool is_signed = std::holds_alternative<field_of<int64_t>>(field);
  if (!row.range.least) {
    if (is_32 || is_64 || row.type == value_type::bytes)
      out["minimum"] = 0;
    else if (is_signed)
      out["minimum"] = -std::numeric_limits<int64_t>::max();
    else
      out["exclusiveMinimum"] = -0x1p64;
  }
  if (!row.range.most) {
    if (is_32)
      out["maximum"] = std::numeric_limits<uint32_t>::max();
    else if (is_signed)
      out["maximum"] = std::numeric_limits<int64_t>::max();
    else
      out["maximum"] = std::numeric_limits<uint64_t>::max();
  }
  return out;
}

/// Returns the schema of a plain text, which may be a number: YAML's numbers count as texts for a text key.
ordered_json text() { return {{"type", {"string", "number"}}}; }
ordered_json path_text(const key_info& row) {
  ordered_json out = text();
  if (row.default_text != "\"\"") out["minLength"] = 1;
  return out;
}

std::string any_case(std::string_view name) {
  std::string out;
  for (const char c : name) {
    const bool is_lower = c >= 'a' && c <= 'z', is_upper = c >= 'A' && c <= 'Z';
    if (is_lower)
      out += fmt::format("[{}{}]", c, static_cast<char>(c - 'a' + 'A'));
    else if (is_upper)
      out += fmt::format("[{}{}]", static_cast<char>(c - 'A' + 'a'), c);
    else
      out += (std::string_view(".+*?()[]{}|^$\\").find(c) != std::string_view::npos ? "\\" : "") + std::string(1, c);
  }
  return out;
}

/// Returns names as texts; a name that YAML reads as a number is also listed as a number.
ordered_json names_of(const std::vector<std::string_view>& names) {
  ordered_json out = ordered_json::array();
  for (const std::string_view name : names) {
    out.push_back(name);
    const node plain{.kind = node_kind::plain, .at = {}, .text = std::string(name), .items = {}, .entries = {}};
    if (const auto number = number_in(plain)) out.push_back(bound(*number));
  }
  return out;
}

ordered_json choice_of(const key_info& row, const std::vector<std::string_view>& names) {
  ordered_json ways = ordered_json::array({one_of_values(names_of(names))});
  if (row.choices.any_case) {
    std::string pattern;
    for (const std::string_view name : names) pattern += (pattern.empty() ? "" : "|") + any_case(name);
    ways.push_back({{"type", "string"}, {"pattern", "^(" + pattern + ")$"}});
  }
  return any_of(std::move(ways));
}

/// Returns every spelling of the floating types that a key accepts.
ordered_json dtypes_of(const std::vector<std::string_view>& names) {
  ordered_json out = ordered_json::array();
  for (const char* spelling :
       {"fp16", "bf16", "fp32", "fp64", "float16", "bfloat16", "float32", "float64", "half", "float", "double"})
    if (const auto type = core::float_dtype_from(spelling))
      if (names.empty() || std::ranges::find(names, core::name_of(*type)) != names.end()) out.push_back(spelling);
  return one_of_values(std::move(out));
}

/// Returns the schema of a number, or of a text that ends with one of the units.
ordered_json measured(ordered_json number, const char* units) {
  return any_of(
      {std::move(number), {{"type", "string"}, {"pattern", fmt::format("^{} *({})$", number_pattern, units)}}});
}

class schema {
 public:
  explicit schema(schema_of whose) : whose_(whose) {}

  [[nodiscard]] ordered_json whole() const {
    const bool own = whose_ == schema_of::job;
    ordered_json out = {
        {"$schema", "https://json-schema.org/draft/2020-12/schema"},
        {"title", own ? "Troupe job" : "DeepSpeed configuration, as Troupe reads it"},
        {"description", own ? "Describes single keys; `troupe config check` also checks the rules between them."
                            : "Describes single keys; `troupe config explain` shows the effect of each."},
        {"type", "object"}};
    out.update(keys_of(""));
    return out;
  }

 private:
  /// Returns `properties` and the other schema keys of a section.
  [[nodiscard]] ordered_json keys_of(std::string_view section) const {
    ordered_json named = ordered_json::object(), needed = ordered_json::array();
    ordered_json others = whose_ == schema_of::deepspeed && !strict_in_deepspeed(section);
    for (const key_info& row : key_table()) {
      if (row.section() != section) continue;
      const std::string name(row.name().substr(0, row.name().find('[')));
      ordered_json one = described(row);
      if (name == "*") {
        others = std::move(one);
        continue;
      }
      for (const alias& a : row.aliases) {
        ordered_json other = one;
        other["description"] = fmt::format("Another name of {}. {}", name, row.meaning);
        if (a.deprecated) other["deprecated"] = true;
        named[std::string(a.name)] = std::move(other);
      }
      if (row.required && row.in_list()) needed.push_back(name);
      named[name] = std::move(one);
    }
    ordered_json out = {{"properties", std::move(named)}, {"additionalProperties", std::move(others)}};
    // Required keys of list items have no other names, so `required` lists their own names.
    if (!needed.empty()) out["required"] = std::move(needed);
    return out;
  }

  /// Returns the schema of a key: its meaning, its default, and its accepted values.
  [[nodiscard]] ordered_json described(const key_info& row) const {
    std::string says(row.meaning);
    if (!row.types.families.empty()) says += fmt::format(" ({})", fmt::join(row.types.families, ", "));
    if (!row.types.readers.empty()) says += fmt::format(" Of {}.", fmt::join(row.types.readers, ", "));
    if (const std::string effect = effect_of(row); row.type != value_type::section && effect != "acts")
      says += fmt::format(" [{}]", effect);
    if (!row.deprecation.empty()) says += fmt::format(" Write {} instead.", row.deprecation);
    ordered_json out = {{"description", std::move(says)}};
    if (!row.deprecation.empty()) out["deprecated"] = true;
    if (ordered_json standard = default_of(row); !standard.is_null()) out["default"] = std::move(standard);
    out.update(values_of(row));
    return out;
  }

  static ordered_json default_of(const key_info& row) {
    if (row.default_text == "none" || row.default_text == "derived" || row.required) return {};
    const auto parsed = core::parse_json<ordered_json>(row.default_text);
    const bool text = row.type == value_type::text || row.type == value_type::path || row.type == value_type::dtype;
    if (parsed && (!text || parsed->is_string())) return *parsed;
    return text && row.default_text.find(' ') == std::string::npos ? ordered_json(row.default_text) : ordered_json();
  }

  [[nodiscard]] ordered_json values_of(const key_info& row) const {
    if (!row.support.refusal.empty()) return {{"not", ordered_json::object()}};
    if (row.type == value_type::any) return ordered_json::object();
    ordered_json ways = ordered_json::array();
    if (row.is_list()) {
      ordered_json item = {{"type", "object"}};
      item.update(keys_of(row.key));
      ways.push_back({{"type", "array"}, {"maxItems", 1000}, {"items", std::move(item)}});
    } else if (row.type == value_type::section) {
      ordered_json mapping = {{"type", "object"}};
      mapping.update(keys_of(row.key));
      ways.push_back(std::move(mapping));
      // `zero_optimization` may be true or false in old files.
      if (row.key == "zero_optimization") ways.push_back({{"type", "boolean"}});
    } else {
      ways.push_back(plain_of(row));
      put_lenient(row, ways);
    }
    ways.push_back({{"const", "auto"}});
    if (row.nullable() || row.type == value_type::section) ways.push_back({{"type", "null"}});
    return any_of(std::move(ways));
  }

  /// Returns the schema of a key's value in its preferred spelling.
  [[nodiscard]] ordered_json plain_of(const key_info& row) const {
    if (whose_ == schema_of::job && !row.support.only.empty()) return only_of(row);
    std::vector<std::string_view> names = row.choices.names;
    if (whose_ == schema_of::deepspeed) names.insert(names.end(), row.choices.later.begin(), row.choices.later.end());
    switch (row.type) {
      case value_type::boolean:
        return {{"type", "boolean"}};
      case value_type::integer:
        return integer_of(row);
      case value_type::number:
        return number_of(row, "number");
      case value_type::text:
        if (row.choices.or_number && !names.empty()) return any_of({choice_of(row, names), integer_of(row)});
        if (row.choices.or_number) return any_of({{{"type", "string"}}, number_of(row, "number")});
        return names.empty() ? text() : choice_of(row, names);
      case value_type::path:
        // `deepspeed_config` may contain the whole DeepSpeed configuration instead of the name of its file.
        if (row.key == "deepspeed_config") return {{"type", {"string", "number", "object"}}, {"minLength", 1}};
        return path_text(row);
      case value_type::number_list:
        return {{"type", "array"},
                {"items", number_of(row, "number")},
                {"minItems", row.choices.names.size()},
                {"maxItems", row.choices.names.size()}};
      case value_type::integers:
        return {{"type", "array"}, {"items", integer_of(row)}};
      case value_type::texts: {
        const ordered_json item = names.empty() ? text() : choice_of(row, names);
        return any_of({{{"type", "array"}, {"items", item}}, item});
      }
      case value_type::text_or_integers:
        return any_of({text(), {{"type", "array"}, {"items", integer_of(row)}}});
      case value_type::dtype:
        return dtypes_of(names);
      case value_type::seconds:
        return measured(number_of(row, "number"), "ms|min|h|s");
      case value_type::bytes:
        return measured(integer_of(row), "[KMGT]iB|[kKMGT]B");
      case value_type::object:
      case value_type::section:
        return {{"type", "object"}};
      case value_type::any:
        break;
    }
    return ordered_json::object();
  }

  /// Returns the schema of the values that a job may use, if the key supports only some values so far.
  static ordered_json only_of(const key_info& row) {
    if (row.choices.any_case) return choice_of(row, row.support.only);
    ordered_json values = ordered_json::array();
    for (const std::string_view one : row.support.only) {
      const auto parsed = core::parse_json<ordered_json>(one);
      values.push_back(parsed ? *parsed : ordered_json(one));
    }
    return one_of_values(std::move(values));
  }

  /// Adds the other types that are converted to the key's own type.
  void put_lenient(const key_info& row, ordered_json& ways) const {
    if (row.per_group) {
      ordered_json each = plain_of(row);
      ways.push_back({{"type", "array"}, {"minItems", 1}, {"items", std::move(each)}});
    }
    if (whose_ != schema_of::deepspeed) return;
    if (!row.choices.otherwise.empty()) ways.push_back({{"type", "string"}});
    if (!converts_texts(row.section())) return;
    if (row.type == value_type::boolean)
      ways.push_back(any_of({one_of_values({0, 1}), {{"type", "string"}, {"pattern", boolean_pattern}}}));
    else if (row.type == value_type::integer)
      put_booleans(row, ways);
    const bool is_integer = row.type == value_type::integer || row.type == value_type::bytes;
    if (is_integer || row.type == value_type::number || row.type == value_type::seconds)
      ways.push_back(
          {{"type", "string"}, {"pattern", fmt::format("^{}$", is_integer ? integer_pattern : number_pattern)}});
  }

  /// Adds true and false, which count as 1 and 0, if these numbers are in the range.
  static void put_booleans(const key_info& row, ordered_json& ways) {
    ordered_json out = ordered_json::array();
    for (const bool one : {false, true})
      if (checked(row, make_scalar(node_kind::plain, one ? "1" : "0", {})) != nullptr) out.push_back(one);
    if (!out.empty()) ways.push_back(one_of_values(std::move(out)));
  }

  static constexpr const char* boolean_pattern =
      "^([tT]([rR][uU][eE])?|[fF]([aA][lL][sS][eE])?|[yY]([eE][sS])?|[nN][oO]?|[oO][nN]|[oO][fF][fF]|[01](\\.0)?)$";

  schema_of whose_;
};

bool has_keys(const ordered_json& v) {
  if (v.is_object() && v.contains("properties")) return true;
  return v.is_structured() && std::any_of(v.begin(), v.end(), [](const ordered_json& one) { return has_keys(one); });
}

/// Writes the schema with each key on its own line.
void write_schema(const ordered_json& v, int depth, std::string& out) {
  const bool is_list = depth > 0 && v.is_object() && !v.contains("type") && !v.contains("anyOf");
  if (!has_keys(v) && !(is_list && v.size() > 1 && v.begin()->is_object())) {
    out += v.dump();
    return;
  }
  out += v.is_array() ? "[" : "{";
  const char* between = "\n";
  for (const auto& [name, value] : v.items()) {
    out += between + std::string(static_cast<size_t>(depth) + 1, ' ');
    if (v.is_object()) out += ordered_json(name).dump() + ": ";
    write_schema(value, depth + 1, out);
    between = ",\n";
  }
  out += "\n" + std::string(static_cast<size_t>(depth), ' ') + (v.is_array() ? "]" : "}");
}

}  // namespace

std::string schema_json(schema_of whose) {
  std::string out;
  write_schema(schema(whose).whole(), 0, out);
  return out + "\n";
}

}  // namespace troupe::config
