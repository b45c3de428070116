#include "hardware/csv.hpp"

#include <fmt/format.h>

#include "core/cells.hpp"
#include "core/text.hpp"

namespace troupe::hardware {
namespace {

/// Splits one line into cells; nothing if a quote is not closed.
bool split_line(std::string_view line, std::vector<std::string>& cells) {
  std::string cell;
  bool is_quoted = false, was_quoted = false;
  const auto end_cell = [&] {
    cells.emplace_back(was_quoted ? std::string_view(cell) : core::trimmed(cell));
    cell.clear();
    was_quoted = false;
  };
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (is_quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      cell += c;
      ++i;
    } else if (is_quoted) {
      is_quoted = c != '"';
      if (is_quoted) cell += c;
    } else if (c == '"' && core::trimmed(cell).empty()) {
      cell.clear();
      is_quoted = was_quoted = true;
    } else if (c == ',') {
      end_cell();
    } else if (!was_quoted || !core::is_ascii_blank(c)) {
      cell += c;
    }
  }
  end_cell();
  return !is_quoted;
}

}  // namespace

core::result<csv_file> read_csv(std::string_view text, const std::string& file) {
  csv_file out;
  out.file = file;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);  // the mark with which some programs begin UTF-8
  for (size_t number = 1; !text.empty(); ++number) {
    const auto line = core::trimmed(core::take_cell(text, '\n'));
    if (line.empty()) continue;
    std::vector<std::string> cells;
    if (!split_line(line, cells)) return core::refused(fmt::format("{}:{}: a quote is not closed", file, number));
    if (out.columns.empty()) {
      out.columns = std::move(cells);
      continue;
    }
    if (cells.size() != out.columns.size())
      return core::refused(fmt::format("{}:{}: wanted {} cells, one for each column, got {}", file, number,
                                       out.columns.size(), cells.size()));
    out.rows.push_back({number, std::move(cells)});
  }
  if (out.rows.empty()) return core::refused(fmt::format("{}: wanted column names and at least one row", file));
  return out;
}

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == text.npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) out.append(c == '"' ? 2 : 1, c);
  return out + '"';
}

}  // namespace troupe::hardware
