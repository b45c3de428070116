// Reads rows of several fields out of the batches of an Arrow file or stream.
#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "data/formats/columns/arrow_array.hpp"
#include "data/formats/columns/arrow_messages.hpp"
#include "data/formats/objects.hpp"
#include "data/formats/row_files.hpp"

namespace troupe::data {
namespace {

class arrow_row_reader {
 public:
  arrow_row_reader(const core::source_file& file, const std::vector<std::string>& columns, uint64_t& bytes_left,
                   const object_visit& visit)
      : file_(file), columns_(columns), bytes_left_(bytes_left), visit_(visit), messages_(file) {}

  core::result<void> read() {
    return messages_.read([](uint64_t) { return core::result<void>(); },
                          [this](const arrow_message& message) { return take(message); });
  }

 private:
  core::result<void> take(const arrow_message& message) {
    if (message.type == arrow_header::schema) {
      auto found = find_arrow_fields(message.header, columns_, message.version);
      if (!found) return fail(found.error().in(fmt::format("'{}'", file_.name())));
      fields_ = std::move(*found);
      return {};
    }
    // Dictionaries belong to columns that are not read: find_arrow_fields() refuses the others.
    if (message.type == arrow_header::dictionary) return {};
    const arrow_batch batch(file_, message.header, message.body_begin, message.body_bytes);
    const auto rows = batch.rows(fields_.front().node);
    if (!rows) return messages_.lies(rows.error());
    std::vector<arrow_array> arrays;
    for (const auto& field : fields_) {
      auto opened = arrow_array::open(batch, field);
      if (!opened) return messages_.lies(opened.error());
      arrays.push_back(std::move(*opened));
    }
    for (uint64_t i = 0; i < *rows; ++i) TROUPE_TRY(give(batch, arrays, i, *rows));
    return {};
  }

  core::result<void> give(const arrow_batch& batch, std::vector<arrow_array>& arrays, uint64_t i, uint64_t rows) {
    auto row = nlohmann::ordered_json::object();
    value_budget left{.row = max_row_bytes, .all = bytes_left_};
    for (size_t f = 0; f < fields_.size(); ++f) {
      auto value = arrays[f].value(i, left);
      if (!value) return messages_.lies(value.error().in(fmt::format("row {} of the file", number_ + 1)));
      row[fields_[f].name] = std::move(*value);
    }
    bytes_left_ = left.all;
    return visit_(row, fmt::format("{}: row {}", file_.name(), ++number_), batch.byte_of(i, rows));
  }

  const core::source_file& file_;
  const std::vector<std::string>& columns_;
  uint64_t& bytes_left_;
  const object_visit& visit_;
  arrow_messages messages_;
  std::vector<arrow_field> fields_;
  uint64_t number_ = 0;  ///< number of rows that were passed on
};

}  // namespace

core::result<void> read_arrow_rows(const core::source_file& file, const std::vector<std::string>& columns,
                                   uint64_t& bytes_left, const object_visit& visit) {
  return arrow_row_reader(file, columns, bytes_left, visit).read();
}

}  // namespace troupe::data
