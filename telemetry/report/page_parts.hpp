// Makes the parts that pages about runs share: tables, and the colours of kinds of instructions. Colours of all else
// are in report_style.hpp. Pure functions that return text.
#pragma once

#include <string>
#include <vector>

namespace troupe::telemetry {

/// Cells of a table's row, as HTML: the caller has escaped their text.
using cells = std::vector<std::string>;

/// Returns a row of a table whose cells are elements `tag`, `td` or `th`. `kind`: class of the row; empty: none.
std::string row_of(const cells& c, const char* tag, const char* kind = "");

/// Returns a table that can be scrolled sideways. `rows`: the texts of row_of(), one after the other.
std::string table_of(const cells& head, const std::string& rows);

/// Returns the colours of instruction kinds as CSS variables `--KIND`, and classes `.x-KIND` that fill with them.
std::string kind_style();

}  // namespace troupe::telemetry
