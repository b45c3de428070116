#include "telemetry/curves/cut_curve.hpp"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>

#include "core/number.hpp"

namespace troupe::telemetry {
namespace {

std::optional<uint64_t> number_at(std::string_view text) { return core::take_number<uint64_t>(text); }

/// Number of bytes of a file's first row that the error "begins with ..." quotes if the file is not a curve.
constexpr size_t shown_bytes = 40;

/// Reads the next row, without its line end. Returns false if the file ends before a line end, or if the row is longer
/// than row_bytes_limit.
bool next_row(std::istream& in, std::string& row) {
  row.clear();
  int c = 0;
  while ((c = in.get()) != std::char_traits<char>::eof() && c != '\n' && row.size() < row_bytes_limit)
    row.push_back(static_cast<char>(c));
  return c == '\n';
}

std::string shown(std::string row) {
  const bool cut = row.size() > shown_bytes;
  row.resize(std::min(row.size(), shown_bytes));
  for (char& c : row)
    if (c < ' ' || c > '~') c = '?';
  return "'" + row + (cut ? "...'" : "'");
}

core::error failure(const std::filesystem::path& file, const std::error_code& e) {
  return {core::error_kind::io, "cannot cut " + file.string() + " where the run resumes: " + e.message()};
}

}  // namespace

std::optional<uint64_t> csv_place(std::string_view row) { return number_at(row); }

std::optional<uint64_t> json_place(std::string_view row) {
  constexpr std::string_view key = "\"global_samples\":";
  const size_t at = row.find(key);
  return at == std::string_view::npos ? std::nullopt : number_at(row.substr(at + key.size()));
}

bool csv_begins(std::string_view row, bool whole, std::string_view header) {
  return whole ? row == header : header.starts_with(row);
}

bool json_begins(std::string_view row, bool whole, std::string_view) {
  constexpr std::string_view head = "{\"step\":";
  return whole ? row.starts_with(head) && json_place(row) : row.starts_with(head) || head.starts_with(row);
}

core::result<void> check_is_curve(const std::filesystem::path& file, first_row begins, std::string_view header) {
  std::error_code e;
  const auto status = std::filesystem::status(file, e);
  // Reports nothing if the folder is missing or cannot be read: the caller creates the folder next and reports that.
  if (!std::filesystem::exists(status)) return {};
  const std::string wanted = ", wanted a curve of an earlier run or nothing: move it, or choose another folder";
  if (!std::filesystem::is_regular_file(status))
    return core::fail(core::error_kind::bad_input, file.string() + " is not a file" + wanted);
  std::ifstream in(file, std::ios::binary);
  if (!in)
    return core::fail(core::error_kind::io, "cannot read " + file.string() + ": " +
                                                std::error_code(errno, std::generic_category()).message());
  std::string row;
  const bool whole = next_row(in, row);
  if (begins(row, whole, header)) return {};
  return core::fail(core::error_kind::bad_input, file.string() + " begins with " + shown(std::move(row)) + wanted);
}

core::result<void> cut_curve(const std::filesystem::path& file, uint64_t last, row_place place_of) {
  std::error_code e;
  if (!std::filesystem::is_regular_file(file, e)) return {};
  const uint64_t bytes = std::filesystem::file_size(file, e);
  if (e) return core::fail(failure(file, e));
  uint64_t kept = 0;
  {
    std::ifstream in(file, std::ios::binary);
    if (!in) return core::fail(failure(file, std::error_code(errno, std::generic_category())));
    std::string row;
    bool whole = true;
    while (whole) {
      whole = next_row(in, row);
      const auto place = place_of(row);
      whole = whole && (!place || *place <= last);
      if (whole) kept += row.size() + 1;
    }
  }
  if (kept == bytes) return {};
  std::filesystem::resize_file(file, kept, e);
  if (e) return core::fail(failure(file, e));
  return {};
}

}  // namespace troupe::telemetry
