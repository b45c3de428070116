// Reads a CSV file with one line of column names. Owns the syntax: commas, double quotes around a cell with commas or
// quotes, CRLF or LF; cells lose blanks at both ends. Leaves the meaning of columns to table.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::hardware {

/// Largest table that is read.
inline constexpr uint64_t most_csv_bytes = uint64_t{64} << 20;

struct csv_row {
  size_t line = 0;  ///< line in the file, from 1
  std::vector<std::string> cells;
};

struct csv_file {
  std::string file;  ///< path, for messages
  std::vector<std::string> columns;
  std::vector<csv_row> rows;
};

/// Parses a text; lines of blanks are skipped. Refused with the line: a row with more or fewer cells than columns, a
/// quote that is not closed, no rows.
core::result<csv_file> read_csv(std::string_view text, const std::string& file);

/// Returns a cell as CSV text, in quotes if it needs them.
std::string csv_cell(std::string_view text);

}  // namespace troupe::hardware
