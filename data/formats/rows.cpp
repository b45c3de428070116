#include "data/formats/rows.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace troupe::data {

bool has_rows(source_kind kind) {
  return kind == source_kind::parquet || kind == source_kind::arrow || kind == source_kind::tar ||
         kind == source_kind::mds;
}

core::result<void> read_rows(source_kind kind, const core::source_file& file, const std::string& key,
                             uint64_t& bytes_left, const row_visit& visit) {
  const uint64_t at_first = bytes_left;
  const row_visit counted = [&](std::optional<std::string_view> text, uint64_t byte) -> core::result<void> {
    if (!text) return visit(text, byte);
    const uint64_t counts = std::max<uint64_t>(text->size(), least_row_bytes);
    if (counts > bytes_left)
      return core::fail(core::error_kind::limit,
                        fmt::format("'{}' holds more text than the {} bytes that remain of data.max_bytes "
                                    "(--max-bytes), where a row counts as {} at least: raise it",
                                    file.name(), at_first, least_row_bytes));
    bytes_left -= counts;
    return visit(text, byte);
  };
  if (kind == source_kind::tar) return read_tar(file, key, counted);
  if (kind == source_kind::mds) return read_mds(file, key, counted);
  return kind == source_kind::parquet ? read_parquet(file, key, counted) : read_arrow(file, key, counted);
}

}  // namespace troupe::data
