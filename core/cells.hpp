// Splits a line of text at a separator into cells, and parses cells as numbers, for the small tables that a run writes
// into its folder.
#pragma once

#include <algorithm>
#include <cmath>
#include <string_view>
#include <type_traits>

#include "core/number.hpp"

namespace troupe::core {

/// Returns the text before the next `separator`, and removes that text and the separator from `s`.
inline std::string_view take_cell(std::string_view& s, char separator) {
  const size_t n = std::min(s.find(separator), s.size());
  const auto out = s.substr(0, n);
  s.remove_prefix(std::min(n + 1, s.size()));
  return out;
}

/// True if the whole cell is a number of type T, which is then stored in `out`.
bool read_number(std::string_view cell, auto& out) {
  const auto number = number_of<std::remove_reference_t<decltype(out)>>(cell);
  out = number.value_or(out);
  return number.has_value();
}

/// True if the whole cell is a finite number that is at least 0, which is then stored in `out`.
inline bool read_amount(std::string_view cell, double& out) {
  return read_number(cell, out) && std::isfinite(out) && out >= 0;
}

}  // namespace troupe::core
