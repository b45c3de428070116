#include "data/formats/objects.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "core/json_text.hpp"
#include "data/formats/json_lines.hpp"
#include "data/formats/text_window.hpp"

namespace troupe::data {
namespace {

core::result<void> read_json_objects(const core::source_file& file, const object_visit& visit) {
  return read_json_rows(text_window(file), file.name(), [&](const json_row& row) -> core::result<void> {
    const std::string place(row.place);
    auto parsed = core::parse_json<nlohmann::ordered_json>(row.text);
    if (!parsed) parsed = core::parse_json<nlohmann::ordered_json>(with_nulls(row.text));
    if (!parsed)
      return core::fail(parsed.error().kind, fmt::format("{}: {}: wanted one object per line, or an array of objects",
                                                         place, parsed.error().why));
    return visit(*parsed, place, row.end);
  });
}

const char* name_of_rows(source_kind kind) {
  switch (kind) {
    case source_kind::text:
      return "text";
    case source_kind::tokens:
      return "tokens";
    case source_kind::tar:
      return "a tar";
    case source_kind::mds:
      return "a shard of MosaicML's";
    case source_kind::json_lines:
    case source_kind::parquet:
    case source_kind::arrow:
    case source_kind::array:
      break;
  }
  return "rows";
}

}  // namespace

core::result<void> read_objects(source_kind kind, const core::source_file& file,
                                const std::vector<std::string>& columns, uint64_t& bytes_left,
                                const object_visit& visit) {
  if (kind == source_kind::json_lines) return read_json_objects(file, visit);
  if (kind == source_kind::parquet) return read_parquet_rows(file, columns, bytes_left, visit);
  if (kind == source_kind::arrow) return read_arrow_rows(file, columns, bytes_left, visit);
  if (kind == source_kind::array) return read_array_rows(file, columns, bytes_left, visit);
  return core::refused(
      fmt::format("'{}': wanted JSON lines, a JSON array, Parquet or Arrow for samples of several "
                  "fields, got {}; save the data as JSON lines or Parquet",
                  file.name(), name_of_rows(kind)));
}

}  // namespace troupe::data
