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
  std::string text;  ///< text of the line without its indentation
};

struct card_member;

struct card_value {
  std::string scalar;
  /// True: the value is a scalar of several lines, or in a form of YAML that this reader does not parse.
  bool is_unread = false;
  std::vector<card_value> items;
  std::vector<card_member> members;

  /// Returns the value under `key`; null if there is none, or nothing follows its key.
  [[nodiscard]] const card_value* member(std::string_view key) const;
};

struct card_member {
  std::string key;
  card_value value;
};

/// The keys at the top level of a card's metadata, and the lines of the value of the key `configs`.
struct card_outline {
  std::vector<std::string> keys;
  std::vector<card_line> configs;
  bool hides_configs = false;  ///< true: a top-level line contains the word `configs` but has no key that can be read
};

/// Returns the top-level keys of a card's metadata, and the lines of the value of `configs`.
card_outline outline_of(std::string_view metadata);

/// Parses `lines`, which are the value of a key in the metadata. Errors (bad_input) name the line.
core::result<card_value> read_card_value(std::vector<card_line> lines);

}  // namespace troupe::data
