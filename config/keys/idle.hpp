// Keys that act, but not in this configuration: those of another optimizer, of a tier that nothing lives in.
#pragma once

#include <string>

#include "config/keys/key_table.hpp"

namespace troupe::config {

/// Why `config` makes nothing of a key, for readers of `explain`; empty: it does, or nothing is known against it.
std::string idle(const key_info& key, const job_config& config);

}  // namespace troupe::config
