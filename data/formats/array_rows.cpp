// Reads samples out of NumPy's arrays: rows of tokens, with their labels in an array beside. Source of the format:
// NumPy Enhancement Proposal 1, "A simple file format for NumPy arrays".
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/number.hpp"
#include "core/text.hpp"
#include "data/formats/files.hpp"
#include "data/formats/objects.hpp"
#include "data/formats/row_files.hpp"

namespace troupe::data {
namespace {

/// Longest description of an array that is read, in bytes.
constexpr uint64_t max_array_header_bytes = uint64_t{1} << 16;

/// A two-dimensional array of integers in a file.
struct integer_array {
  std::string column;
  core::source_file file;
  uint64_t rows = 0, columns = 0, begin = 0;  ///< begin: byte of the first integer
  uint8_t width = 0;                          ///< bytes of an integer
  bool is_signed = true;
};

tl::unexpected<core::error> no_samples(const core::source_file& file, const std::string& why) {
  return core::refused(fmt::format("'{}': {}", file.name(), why));
}

/// Returns the text of the value of `key` in the header, which is a dictionary in Python's form, and of all that
/// follows; empty if the key is missing.
std::string_view header_value(std::string_view header, std::string_view key) {
  const size_t at = header.find(fmt::format("'{}'", key));
  if (at == std::string_view::npos) return {};
  const size_t colon = header.find(':', at);
  return colon == std::string_view::npos ? std::string_view() : core::trimmed(header.substr(colon + 1));
}

/// Returns the two numbers of a shape such as `(3, 4)`; an empty list for another one.
std::vector<uint64_t> shape_in(std::string_view text) {
  std::vector<uint64_t> out;
  if (!text.starts_with('(')) return {};
  text.remove_prefix(1);
  while (out.size() < 2) {
    text = core::trimmed(text);
    const auto number = core::take_number<uint64_t>(text);
    if (!number) return {};
    out.push_back(*number);
    text = core::trimmed(text);
    if (text.starts_with(',')) text = core::trimmed(text.substr(1));
  }
  return text.starts_with(')') ? out : std::vector<uint64_t>();
}

/// Sets the width of the integers by NumPy's name of their type, such as <i8; returns false for another type.
bool read_type(std::string_view type, integer_array& out) {
  if (type.size() != 3 || (type[1] != 'i' && type[1] != 'u')) return false;
  const char order = type[0], width = type[2];
  if (width != '1' && width != '2' && width != '4' && width != '8') return false;
  if (order != '<' && !(order == '|' && width == '1')) return false;
  out.is_signed = type[1] == 'i';
  out.width = static_cast<uint8_t>(width - '0');
  return true;
}

core::result<void> read_description(integer_array& out) {
  std::array<std::byte, 12> head{};
  const auto& file = out.file;
  if (file.size() < head.size())
    return no_samples(file, fmt::format("wanted a NumPy array, got {} bytes", file.size()));
  TROUPE_TRY(file.read(0, head));
  if (std::memcmp(head.data(), "\x93NUMPY", 6) != 0) return no_samples(file, "wanted a NumPy array, got another file");
  const auto version = static_cast<unsigned>(head[6]);
  uint64_t bytes = 0;
  std::memcpy(&bytes, head.data() + 8, version == 1 ? 2 : 4);
  out.begin = (version == 1 ? 10 : 12) + bytes;
  if (version < 1 || version > 3 || bytes > max_array_header_bytes || out.begin > file.size())
    return no_samples(file, fmt::format("a NumPy array of version {} with a header of {} bytes in a file of {}",
                                        version, bytes, file.size()));
  std::string header(bytes, '\0');
  TROUPE_TRY(file.read(out.begin - bytes, std::as_writable_bytes(std::span(header))));
  const auto descr = header_value(header, "descr"), shape = header_value(header, "shape");
  const auto type = descr.starts_with('\'') ? descr.substr(1, descr.find('\'', 1) - 1) : descr.substr(0, 16);
  if (!read_type(type, out))
    return no_samples(file, fmt::format("wanted an array of integers, lowest byte first, got the type {}: save "
                                        "`array.astype('int32')`",
                                        core::shown(type)));
  if (!header_value(header, "fortran_order").starts_with("False"))
    return no_samples(file, "wanted an array in C order, got Fortran's: save `numpy.ascontiguousarray(array)`");
  const auto sizes = shape_in(shape);
  if (sizes.size() != 2)
    return no_samples(file, fmt::format("wanted an array of two dimensions, samples and their tokens, got the shape {}",
                                        core::shown(shape.substr(0, shape.find(')') + 1))));
  out.rows = sizes[0];
  out.columns = sizes[1];
  const uint64_t held = (file.size() - out.begin) / out.width;
  if (out.columns > max_row_bytes / out.width)
    return fail(error_kind::limit, fmt::format("'{}': rows of {} integers, at most {} bytes are read", file.name(),
                                               out.columns, max_row_bytes));
  if (out.columns > 0 && (out.rows > held / out.columns || held != out.rows * out.columns))
    return no_samples(file, fmt::format("wanted {} x {} integers, got {}", out.rows, out.columns, held));
  return {};
}

core::result<integer_array> open_array(const std::filesystem::path& path, const std::string& column) {
  integer_array out;
  out.column = column;
  TROUPE_ASSIGN(out.file, core::source_file::open(path));
  TROUPE_TRY(read_description(out));
  return out;
}

core::result<nlohmann::ordered_json> array_row(const integer_array& from, uint64_t row,
                                               std::vector<std::byte>& buffer) {
  const uint64_t bytes = from.columns * from.width;
  buffer.resize(bytes);
  if (bytes > 0) TROUPE_TRY(from.file.read(from.begin + row * bytes, buffer));
  auto out = nlohmann::ordered_json::array();
  for (uint64_t i = 0; i < from.columns; ++i) {
    uint64_t value = 0;
    std::memcpy(&value, buffer.data() + i * from.width, from.width);
    const unsigned unused = 64U - 8U * from.width;
    if (from.is_signed)
      out.push_back(static_cast<int64_t>(value << unused) >> unused);
    else
      out.push_back(value);
  }
  return out;
}

}  // namespace

core::result<void> read_array_rows(const core::source_file& file, const std::vector<std::string>& columns,
                                   uint64_t& bytes_left, const object_visit& visit) {
  if (columns.empty() || columns.front() != "input_ids")
    return no_samples(file, "a NumPy array holds tokens: name it as data.labelled (form: labelled)");
  const std::filesystem::path path = file.name();
  std::vector<integer_array> arrays;
  for (const auto& column : columns) {
    std::filesystem::path place = path;
    if (!arrays.empty()) {
      TROUPE_ASSIGN(place, array_beside(path, column));
      if (place.empty()) continue;
    }
    TROUPE_ASSIGN(auto opened, open_array(place, column));
    if (!arrays.empty() && (opened.rows != arrays.front().rows || opened.columns != arrays.front().columns))
      return no_samples(
          opened.file, fmt::format("wanted the shape of '{}', {} x {}, got {} x {}", path.string(), arrays.front().rows,
                                   arrays.front().columns, opened.rows, opened.columns));
    arrays.push_back(std::move(opened));
  }
  std::vector<std::byte> buffer;
  const auto& tokens = arrays.front();
  for (uint64_t r = 0; r < tokens.rows; ++r) {
    auto row = nlohmann::ordered_json::object();
    for (const auto& one : arrays) {
      const uint64_t bytes = std::max<uint64_t>(1, one.columns * one.width);
      if (bytes > bytes_left)
        return fail(error_kind::limit,
                    fmt::format("'{}' holds more values than the bytes that remain of data.max_bytes (--max-bytes): "
                                "raise it",
                                one.file.name()));
      bytes_left -= bytes;
      TROUPE_ASSIGN(row[one.column], array_row(one, r, buffer));
    }
    TROUPE_TRY(visit(row, fmt::format("{}: row {}", file.name(), r + 1),
                     tokens.begin + (r + 1) * tokens.columns * tokens.width));
  }
  return {};
}

}  // namespace troupe::data
