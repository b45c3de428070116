// A loaded configuration for people and for later: every effective value with its origin, meaning and effect; the
// YAML that gives the same run again; the reference of all keys. All from key_table.hpp.
#pragma once

#include <string>

#include "config/load.hpp"

namespace troupe::config {

enum class shown_keys : uint8_t { all, given };  ///< given: by the file or a `--set`

/// Every effective value, for people.
std::string explain_text(const loaded& what, shown_keys keys = shown_keys::all);

/// The same as a JSON object: `values` is an array of
/// `{"key", "value", "origin", "meaning", "effect", "capability", "reason"}`, `waiting` one of
/// `{"capability", "keys": [{"key", "values"}]}`, which says of every capability that is not there yet what waits for
/// it.
std::string explain_json(const loaded& what, shown_keys keys = shown_keys::all);

/// Keys that wait for capabilities, as docs/deepspeed.md has it.
std::string waiting_markdown();

/// Errors and warnings as a JSON array of `{"severity", "file", "line", "column", "key", "text"}`; line 0: the whole
/// file.
std::string as_json(const std::vector<diagnostic>& all);

/// A YAML file that loads to the same configuration from any folder: all paths absolute, nothing left to defaults.
std::string effective_yaml(const loaded& what);

/// docs/configuration.md.
std::string reference_markdown();

}  // namespace troupe::config
