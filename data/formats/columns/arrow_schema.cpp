// Finds a column in an Arrow schema: counts the buffers of the fields before it, which their types determine.
#include "data/formats/columns/arrow_schema.hpp"

#include <fmt/format.h>

#include <array>

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
    const auto type = field.number<uint8_t>(field_type_type, 0);
    const bool indices = field.table(field_dictionary).exists();
    const auto buffers =
        indices ? std::optional<uint64_t>(2) : buffers_of(type, field.table(field_type_table), version);
    if (!buffers || ++fields > max_fields || depth > max_depth) {
      problem = !buffers ? fmt::format("the column '{}' holds {}; the columns after it cannot be read",
                                       field.text(field_name), name_of(type))
                         : fmt::format("more than {} fields, or more than {} deep", max_fields, max_depth);
      return;
    }
    ++at.first_node;
    at.first_buffer += *buffers;
    if (indices) return;
    if (is_view(type)) ++at.views_before;
    const uint64_t children = field.tables(field_children);
    for (uint64_t i = 0; i < children && problem.empty(); ++i) pass(field.table(field_children, i), depth + 1);
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

}  // namespace troupe::data
