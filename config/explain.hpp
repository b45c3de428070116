// Formats a loaded configuration: every effective value with its origin, meaning and effect; the reference of all keys.
// Everything comes from key_table.hpp.
#pragma once

#include <string>
#include <vector>

#include "config/load.hpp"

namespace troupe::config {

enum class shown_keys : uint8_t { all, given };  ///< `given`: only keys to which the file or a `--set` gives a value

/// Returns every effective value as text for people.
std::string explain_text(const loaded& what, shown_keys keys = shown_keys::all);

/// Returns every effective value as a JSON object: `values` is an array of `{"key", "value", "origin", "meaning",
/// "effect", "capability", "reason"}`, `waiting` an array of `{"capability", "keys": [{"key", "values"}]}`, which lists
/// for every missing capability the keys and values that wait for it.
std::string explain_json(const loaded& what, shown_keys keys = shown_keys::all);

struct listed_setting {  ///< a key of a job with its value
  std::string key;
  std::string value;  ///< YAML on one line
  /// True: the value is none or the key's default, and the key is no parameter of the optimizer or of its schedule.
  bool is_default = false;
};
/// Returns the job's keys with their values, those of the model included, for programs that list a run's settings. Keys
/// of lists and of named groups are omitted; keys that this job does not use have their defaults.
std::vector<listed_setting> listed_settings(const job_config& job);

/// Returns the Markdown table of docs/deepspeed.md: the keys that have no effect yet because Troupe lacks a capability,
/// by capability.
std::string waiting_markdown();

/// Returns errors and warnings as a JSON array of `{"severity", "file", "line", "column", "key", "text"}`; line 0 means
/// the whole file.
std::string as_json(const std::vector<diagnostic>& all);

/// Returns the text of docs/configuration.md.
std::string reference_markdown();

}  // namespace troupe::config
