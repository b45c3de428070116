// Every configuration key that Troupe knows, one row each. Reading, checks, `explain` and docs/configuration.md all use
// this one table. Rules between several keys are in resolve.hpp.
//
// A new key is one row in a keys_*.cpp file (and a field in job_config.hpp if some code uses it).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/keys/key_info.hpp"
#include "core/text.hpp"

namespace troupe::config {

/// Returns all rows, section by section.
const std::vector<key_info>& key_table();

/// Returns the row of the key with this full dotted name; null if there is none.
const key_info* key_named(std::string_view key);
/// Returns the row of the key whose name, or one of whose aliases, is `name` in the section of this canonical name;
/// null if there is none. `used` receives the alias.
const key_info* key_in(std::string_view section, std::string_view name, const alias** used = nullptr);
/// Returns the switch that a key's own row names, else the switch that the row of the nearest enclosing section
/// names; null if there is none. If the key itself is the switch of its section, only sections further out are
/// searched.
const key_switch* switch_of(const key_info& key);
/// Returns the full key most similar to `section.name`; keys of the same section are preferred.
std::string nearest_key(std::string_view section, std::string_view name);

using core::edits;

/// Returns the expected values for messages and docs, such as "an integer from 0 to 3".
std::string wanted(const key_info& key);
/// Returns the effect of a key: "acts", "acts once there is offload", "no effect: ...".
std::string effect_of(const key_info& key);
/// Returns the effect of a key with a value beyond `only` and `choices`, which is not supported yet.
std::string effect_beyond(const key_info& key);

}  // namespace troupe::config
