// Converts a value of a configuration file to a field of job_config and back to text, by the type and range of its key.
// Contains no rule for a single key.
#pragma once

#include <optional>
#include <string>

#include "config/document/scalars.hpp"
#include "config/keys/key_table.hpp"

namespace troupe::config {

/// Returns `value` in the canonical spelling of its key: choices in their own letter case, floating types in their
/// short form. Null if it does not have the type or is outside the range; config::wanted(key) then returns the expected
/// values.
node_ptr checked(const key_info& key, const node_ptr& value);

/// Stores a checked value in its field, if the key has one; relative paths start at `folder`. `item` is the index if
/// the key belongs to a list. Returns a description of the expected value if the field refuses it.
std::optional<std::string> store(const key_info& key, const node& value, const std::filesystem::path& folder,
                                 job_config& into, size_t item = 0);

/// Returns the value of the key's field in `from` as YAML; "none" if there is none. For keys of the model, keys without
/// a field and an `item` beyond the list's end, returns the key's default.
std::string field_text(const key_info& key, const job_config& from, size_t item = 0);

/// True if the key was given a value, as the flag key_target::told records. Requires that the key has this flag.
bool was_told(const key_info& key, const job_config& from);

/// True if a checked value equals the key's default.
bool is_default(const key_info& key, const node& value);

}  // namespace troupe::config
