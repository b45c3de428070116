// From a node to a field of job_config and back to text, by a key's type and range. Knows no key by name.
#pragma once

#include <optional>
#include <string>

#include "config/document/scalars.hpp"
#include "config/keys/key_table.hpp"

namespace troupe::config {

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

}  // namespace troupe::config
