// Parses the scalars of a document for any key: numbers, sizes, times, `auto`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/document/document.hpp"

namespace troupe::config {

/// True if the value is the text `auto`, with which a configuration leaves a value to Troupe.
bool is_auto(const node& value);

/// Returns the value of a plain scalar that is a number; nothing for any other value or an infinite number.
std::optional<double> number_in(const node& value);

/// An integer scalar, in any notation: `5e8` and `5.0` are integers, too. All 64 bits are exact in each notation.
struct whole {
  bool negative = false;
  uint64_t magnitude = 0;
};
std::optional<whole> integer_in(const node& value);
std::optional<bool> boolean_in(const node& value);
std::optional<double> seconds_in(const node& value);
std::optional<uint64_t> bytes_in(const node& value);
/// True if the value is quoted, or a plain scalar that is not a boolean.
bool is_text(const node& value);

/// Returns a text in quotes that YAML and JSON read as the same text.
std::string quoted(const std::string& text);

}  // namespace troupe::config
