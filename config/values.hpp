// From a node to a field of job_config and back to text, by a key's type and range. Knows no key by name.
#pragma once

#include <optional>
#include <string>

#include "config/key_table.hpp"

namespace troupe::config {

/// `"auto"`: the default applies.
bool is_auto(const node& value);

/// The number of a plain scalar, always finite.
std::optional<double> number_in(const node& value);

/// An integer as written: `5e8` and `5.0` are integers too.
struct whole {
  bool negative = false;
  uint64_t magnitude = 0;
};
std::optional<whole> integer_in(const node& value);
std::optional<bool> boolean_in(const node& value);
std::optional<double> seconds_in(const node& value);
std::optional<uint64_t> bytes_in(const node& value);

/// `value` in the one spelling that its key has: choices in their own letter case, floating types in their short
/// form. Null when it does not have the type or lies outside the range; config::wanted(key) then says what would do.
node_ptr checked(const key_info& key, const node_ptr& value);

/// Puts a checked value into its field, if the key has one; relative paths are taken from `folder`. `item` counts in
/// the list of a key of one. Returns what was wanted instead when the field refuses it.
std::optional<std::string> store(const key_info& key, const node& value, const std::filesystem::path& folder,
                                 job_config& into, size_t item = 0);

/// The field's value as YAML; "none" when there is none. Model keys and keys without field: the default's text.
/// Of an item behind a list's end: the default's text.
std::string field_text(const key_info& key, const job_config& from, size_t item = 0);

/// Whether a key that tells so was given a value.
bool was_told(const key_info& key, const job_config& from);

/// Whether a checked value says the same as the key's default.
bool is_default(const key_info& key, const node& value);

/// A text as YAML and JSON both read it.
std::string quoted(const std::string& text);

}  // namespace troupe::config
