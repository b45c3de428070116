// Lists, from the key table, the keys and values that have no effect yet because Troupe lacks a capability that they
// need.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/keys/key_table.hpp"

namespace troupe::config {

struct waiting_key {
  const key_info* row;
  /// values of the key that depend on a missing capability: `all`, `all but false`, or the names of some values
  std::string values;
};

struct waiting_for {
  std::string_view capability;
  std::vector<waiting_key> keys;
};

/// Returns the keys and values without effect, grouped by the capability that Troupe lacks, in the order in which the
/// key table first names the capabilities.
std::vector<waiting_for> all_waiting();

}  // namespace troupe::config
