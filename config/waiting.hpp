// Lists the keys and values that wait for missing capabilities, from the key table alone.
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

/// Returns the waiting keys by capability, in the order in which the table first names it.
std::vector<waiting_for> all_waiting();

}  // namespace troupe::config
