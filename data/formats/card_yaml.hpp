// Reads the part of YAML that data sets' cards use: blocks of lists and mappings, scalars, and lists and mappings in
// brackets on one line. Other forms, such as anchors and values on several lines, are marked or refused.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::data {

/// Deepest nesting of values in the metadata.
inline constexpr size_t max_card_depth = 16;

struct card_line {  ///< a line of the metadata
  size_t number = 0, indent = 0;
  std::string text;  ///< the line without its indentation
};

struct card_member;

struct card_value {
  std::string scalar;
  bool is_unread = false;  ///< true: a scalar of several lines, or in a form that is not read
  std::vector<card_value> items;
  std::vector<card_member> members;

  /// Returns the value under `key`; null if there is none, or nothing follows its key.
  [[nodiscard]] const card_value* member(std::string_view key) const;
};

struct card_member {
  std::string key;
  card_value value;
};

/// The metadata's own keys, and the lines of the value of `configs`.
struct card_outline {
  std::vector<std::string> keys;
  std::vector<card_line> configs;
  bool hides_configs = false;  ///< true: `configs` is named in a line that has no key
};

/// Returns the keys at the beginning of lines, and the lines of `configs`.
card_outline outline_of(std::string_view metadata);

/// Returns the value that these lines have. Errors (bad_input) name the line.
core::result<card_value> read_card_value(std::vector<card_line> lines);

}  // namespace troupe::data
