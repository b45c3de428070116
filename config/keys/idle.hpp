// Finds keys that have an effect in other configurations but none in this one: keys of an optimizer that is not chosen,
// or of a storage device that is not used.
#pragma once

#include <string>

#include "config/keys/key_table.hpp"

namespace troupe::config {

/// Returns the reason why the key has no effect in `config`, if the key that switches it on has its default; empty for
/// a key that is switched on, or that no other key switches on.
std::string switched_off(const key_info& key, const job_config& config);

/// Returns the reason why the key has no effect in `config`, as text for `explain`; empty if the key has an effect or
/// no reason is known.
std::string idle(const key_info& key, const job_config& config);

}  // namespace troupe::config
