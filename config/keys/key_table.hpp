// Every configuration key that Troupe knows. Reading, checks, `explain` and docs/configuration.md all come from this
// one table. Leaves rules between keys to resolve.hpp.
//
// A new key is one row in a keys_*.cpp file (and a field in job_config.hpp when something acts on it).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/keys/key_info.hpp"

namespace troupe::config {

/// All rows, section by section.
const std::vector<key_info>& key_table();

/// A row by its full key, or null.
const key_info* key_named(std::string_view key);
/// A row by what was written in a section (canonical), aliases included, or null; `used` tells which alias.
const key_info* key_in(std::string_view section, std::string_view name, const alias** used = nullptr);
/// The full key most like `section.name`: of the same section first.
std::string nearest_key(std::string_view section, std::string_view name);

/// Edits (insert, delete, replace, swap of neighbours) from one name to another.
size_t edits(std::string_view a, std::string_view b);

/// "an integer from 0 to 3": for messages and docs.
std::string wanted(const key_info& key);
/// "acts", "acts once there is offload", "no effect: ...": what a key does with a value.
std::string effect_of(const key_info& key);
/// The same with a value that `only` and `choices` leave for later.
std::string effect_beyond(const key_info& key);

}  // namespace troupe::config
