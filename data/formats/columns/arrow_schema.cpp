// Finds columns in an Arrow schema: counts the buffers of the fields before them, which their types determine.
#include "data/formats/columns/arrow_schema.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/text.hpp"

namespace troupe::data {
namespace {

enum field_type : uint8_t {
  type_none,
  type_null,
  type_int,
  type_float,
  type_binary,
  type_utf8,
  type_bool,
  type_decimal,
  type_date,
  type_time,
  type_timestamp,
  type_interval,
  type_list,
  type_struct,
  type_union,
  type_fixed_binary,
  type_fixed_list,
  type_map,
  type_duration,
  type_large_binary,
  type_large_utf8,
  type_large_list,
  type_run_ends,
  type_binary_view,
  type_utf8_view,
  type_list_view,
  type_large_list_view,
  types
};

const char* name_of(uint8_t type) {
  constexpr std::array<const char*, types> names{"nothing",
                                                 "nulls",
                                                 "integers",
                                                 "floating-point numbers",
                                                 "bytes",
                                                 "text",
                                                 "booleans",
                                                 "decimals",
                                                 "dates",
                                                 "times",
                                                 "timestamps",
                                                 "intervals",
                                                 "lists",
                                                 "structures",
                                                 "a union",
                                                 "bytes of one length",
                                                 "lists of one length",
                                                 "maps",
                                                 "durations",
                                                 "large bytes",
                                                 "large text",
                                                 "large lists",
                                                 "run ends",
                                                 "a view of bytes",
                                                 "a view of text",
                                                 "a view of lists",
                                                 "a view of large lists"};
  return type < types ? names[type] : "an unknown type";
}

enum { field_name = 0, field_type_type = 2, field_type_table = 3, field_dictionary = 4, field_children = 5 };

constexpr int16_t version_5 = 4;
constexpr int max_depth = 32;
/// Largest number of fields of a schema, nested ones included: a broken flatbuffer may refer to one table from many
/// places, so that its fields would be visited very often.
constexpr uint64_t max_fields = 100'000;

bool is_view(uint8_t type) { return type == type_binary_view || type == type_utf8_view; }

/// Returns the number of a field's own buffers; nullopt for a type whose number of buffers is unknown.
std::optional<uint64_t> buffers_of(uint8_t type, const flat_table& of, int16_t version) {
  switch (type) {
    case type_null:
    case type_run_ends:
      return 0;
    case type_struct:
    case type_fixed_list:
      return 1;
    case type_union:
      return (of.number<int16_t>(0, 0) == 0 ? 1 : 2) +
             // A sparse union has a buffer of types; a dense union also one of offsets; before version 5 each had one
             // more.
             (version < version_5 ? 1 : 0);
    case type_binary:
    case type_utf8:
    case type_large_binary:
    case type_large_utf8:
    case type_list_view:
    case type_large_list_view:
      return 3;
    default:  // two buffers; a column of views has more, whose number each batch states
      return type > type_none && type < types ? std::optional<uint64_t>(2) : std::nullopt;
  }
}

struct walk {
  int16_t version;
  arrow_column at{};
  uint64_t fields = 0;
  std::string problem{};

  void pass(const flat_table& field, int depth) {
    if (!step(field, depth) || field.table(field_dictionary).exists()) return;
    const uint64_t children = field.tables(field_children);
    for (uint64_t i = 0; i < children && problem.empty(); ++i) pass(field.table(field_children, i), depth + 1);
  }

  /// Steps over a field's own node and buffers; returns false, and sets `problem`, if their number is unknown or the
  /// schema is too large.
  bool step(const flat_table& field, int depth) {
    const auto type = field.number<uint8_t>(field_type_type, 0);
    const bool indices = field.table(field_dictionary).exists();
    const auto buffers =
        indices ? std::optional<uint64_t>(2) : buffers_of(type, field.table(field_type_table), version);
    if (!buffers || ++fields > max_fields || depth > max_depth) {
      problem = !buffers ? fmt::format("the column '{}' holds {}; the columns after it cannot be read",
                                       field.text(field_name), name_of(type))
                         : fmt::format("more than {} fields, or more than {} deep", max_fields, max_depth);
      return false;
    }
    ++at.first_node;
    at.first_buffer += *buffers;
    if (!indices && is_view(type)) ++at.views_before;
    return true;
  }

  /// Describes a field and its members, and steps over them; sets `problem` if it holds values that are not read.
  arrow_field take(const flat_table& field, int depth) {
    arrow_field out;
    out.name = std::string(field.text(field_name));
    out.node = at.first_node;
    out.first_buffer = at.first_buffer;
    out.views_before = at.views_before;
    const auto type = field.number<uint8_t>(field_type_type, 0);
    if (field.table(field_dictionary).exists())
      problem = fmt::format(
          "the column '{}' is encoded by a dictionary, which is not read here; store its values as "
          "they are",
          core::shown(out.name));
    else if (!describe(type, field.table(field_type_table), out))
      problem = fmt::format("the column '{}': wanted texts, numbers, booleans, lists or structures, got {}",
                            core::shown(out.name), type == type_float ? "16-bit numbers" : name_of(type));
    if (!problem.empty() || !step(field, depth)) return out;
    const uint64_t children = field.tables(field_children);
    for (uint64_t i = 0; i < children && problem.empty(); ++i) {
      auto member = take(field.table(field_children, i), depth + 1);
      if (problem.empty() && std::ranges::find(out.members, member.name, &arrow_field::name) != out.members.end())
        problem = fmt::format("the column '{}': two of its members are named '{}'; rename one of them",
                              core::shown(out.name), core::shown(member.name));
      out.members.push_back(std::move(member));
    }
    const bool is_list = out.kind == arrow_kind::list || out.kind == arrow_kind::fixed_list;
    if (problem.empty() && out.kind != arrow_kind::structure && children != (is_list ? 1U : 0U))
      problem = fmt::format("the column '{}': {} with {} members", core::shown(out.name), name_of(type), children);
    return out;
  }

  /// Sets the kind and the sizes of a field; returns false if its values are not read.
  static bool describe(uint8_t type, const flat_table& about, arrow_field& out) {
    switch (type) {
      case type_null:
        out.kind = arrow_kind::null;
        return true;
      case type_bool:
        out.kind = arrow_kind::boolean;
        return true;
      case type_struct:
        out.kind = arrow_kind::structure;
        return true;
      case type_binary_view:
      case type_utf8_view:
        out.kind = arrow_kind::view;
        return true;
      case type_binary:
      case type_utf8:
      case type_large_binary:
      case type_large_utf8:
        out.kind = arrow_kind::text;
        out.width = type == type_binary || type == type_utf8 ? 4 : 8;
        return true;
      case type_list:
      case type_large_list:
        out.kind = arrow_kind::list;
        out.width = type == type_list ? 4 : 8;
        return true;
      case type_fixed_list: {
        out.kind = arrow_kind::fixed_list;
        const auto items = about.number<int32_t>(0, 0);
        out.list_items = items < 0 ? 0 : static_cast<uint64_t>(items);
        return items >= 0;
      }
      case type_int: {
        out.kind = arrow_kind::integer;
        const auto bits = about.number<int32_t>(0, 0);
        out.width = static_cast<uint8_t>(bits / 8);
        out.is_signed = about.number<uint8_t>(1, 0) != 0;
        return bits == 8 || bits == 16 || bits == 32 || bits == 64;
      }
      case type_float: {
        out.kind = arrow_kind::floating;
        const auto precision = about.number<int16_t>(0, 0);  // 0: 16 bits, 1: 32, 2: 64
        out.width = precision == 1 ? 4 : 8;
        return precision == 1 || precision == 2;
      }
      default:
        return false;
    }
  }
};

}  // namespace

core::result<arrow_column> find_arrow_column(const flat_table& schema, const std::string& key, int16_t version) {
  const auto wrong = [](const std::string& why) { return fail(error_kind::bad_input, why); };
  if (schema.number<int16_t>(0, 0) != 0) return wrong("wanted little-endian numbers, got big-endian ones");
  walk way{version};
  std::string names;
  const uint64_t fields = schema.tables(1);
  for (uint64_t i = 0; i < fields; ++i) {
    const auto field = schema.table(1, i);
    const auto name = field.text(field_name);
    if (name != key) {
      if (i < 8) names += fmt::format("{}'{}'", i > 0 ? ", " : "", core::shown(name, 64));
      if (way.problem.empty()) way.pass(field, 0);
      continue;
    }
    if (!way.problem.empty()) return wrong(way.problem);
    for (uint64_t later = i + 1; later < fields; ++later)
      if (schema.table(1, later).text(field_name) == key)
        return wrong(
            fmt::format("several columns are named '{}' (data.text_key): rename all but the one to read", key));
    arrow_column& out = way.at;
    const auto type = field.number<uint8_t>(field_type_type, 0);
    out.view = is_view(type);
    if (!out.view && type != type_utf8 && type != type_large_utf8 && type != type_binary && type != type_large_binary)
      return wrong(fmt::format("wanted text in the column '{}', got {}", key, name_of(type)));
    out.large = type == type_large_utf8 || type == type_large_binary;
    if (const auto dictionary = field.table(field_dictionary); dictionary.exists()) {
      out.dictionary = dictionary.number<int64_t>(0, 0);
      const auto index = dictionary.table(1);
      const auto bits = index.number<int32_t>(0, index.exists() ? 0 : 32);
      if (bits != 8 && bits != 16 && bits != 32 && bits != 64)
        return wrong(fmt::format("the column '{}' has indices of {} bits, wanted 8, 16, 32 or 64", key, bits));
      out.index_bytes = static_cast<uint8_t>(bits / 8);
      out.index_signed = !index.exists() || index.number<uint8_t>(1, 0) != 0;
    }
    return out;
  }
  return wrong(
      fmt::format("wanted a column '{}' with the text (data.text_key), got {}", key, names.empty() ? "none" : names));
}

core::result<std::vector<arrow_field>> find_arrow_fields(const flat_table& schema,
                                                         const std::vector<std::string>& columns, int16_t version) {
  const auto wrong = [](const std::string& why) { return fail(error_kind::bad_input, why); };
  if (schema.number<int16_t>(0, 0) != 0) return wrong("wanted little-endian numbers, got big-endian ones");
  walk way{version};
  std::string names;
  std::vector<arrow_field> out;
  const uint64_t fields = schema.tables(1);
  for (uint64_t i = 0; i < fields; ++i) {
    const auto field = schema.table(1, i);
    const std::string name(field.text(field_name));
    if (i < 8) names += fmt::format("{}'{}'", i > 0 ? ", " : "", core::shown(name, 64));
    const bool is_wanted = std::ranges::find(columns, name) != columns.end();
    if (!way.problem.empty()) {
      // Columns that are not read may hold anything, but only the last ones: the buffers after them are unknown.
      if (is_wanted) return wrong(way.problem);
      continue;
    }
    if (!is_wanted) {
      way.pass(field, 0);
      continue;
    }
    if (std::ranges::find(out, name, &arrow_field::name) != out.end())
      return wrong(fmt::format("several columns are named '{}': rename all but the one to read", core::shown(name)));
    out.push_back(way.take(field, 0));
    if (!way.problem.empty()) return wrong(way.problem);
  }
  if (out.empty())
    return wrong(
        fmt::format("wanted one of the columns {}, got {}", fmt::join(columns, ", "), names.empty() ? "none" : names));
  return out;
}

}  // namespace troupe::data
