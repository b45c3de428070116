// Finds keys that have an effect, but not in this configuration: keys of another optimizer, of an unused tier.
#pragma once

#include <string>

#include "config/keys/key_table.hpp"

namespace troupe::config {

/// Returns the reason why the key has no effect in `config`, for readers of `explain`; empty: it has an effect, or no
/// reason against it is known.
std::string idle(const key_info& key, const job_config& config);

}  // namespace troupe::config
