#include "telemetry/cut_curve.hpp"

#include <charconv>
#include <fstream>
#include <string>

namespace troupe::telemetry {
namespace {

std::optional<uint64_t> number_at(std::string_view text) {
  uint64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end != text.data() ? std::optional(out) : std::nullopt;
}

core::error failure(const std::filesystem::path& file, const std::error_code& e) {
  return {core::error_kind::io, "cannot cut " + file.string() + " where the run goes on: " + e.message()};
}

}  // namespace

std::optional<uint64_t> csv_place(std::string_view row) { return number_at(row); }

std::optional<uint64_t> json_place(std::string_view row) {
  constexpr std::string_view key = "\"global_samples\":";
  const size_t at = row.find(key);
  return at == std::string_view::npos ? std::nullopt : number_at(row.substr(at + key.size()));
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
      row.clear();
      int c = 0;
      while ((c = in.get()) != std::char_traits<char>::eof() && c != '\n' && row.size() < row_bytes_limit)
        row.push_back(static_cast<char>(c));
      const auto place = place_of(row);
      whole = c == '\n' && (!place || *place <= last);
      if (whole) kept += row.size() + 1;
    }
  }
  if (kept == bytes) return {};
  std::filesystem::resize_file(file, kept, e);
  if (e) return core::fail(failure(file, e));
  return {};
}

}  // namespace troupe::telemetry
