// Where the members of a store are that says who leads a job: etcd://HOST:PORT,HOST:PORT, or etcds:// where it wants
// TLS. Owns the reading; whether anybody is there is another matter.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/host_port.hpp"

namespace troupe::core {

inline constexpr size_t store_members_max = 9;

struct store_place {
  std::vector<host_port> members;
  bool is_encrypted = false;
};

/// Nothing for what is not so.
std::optional<store_place> read_store(std::string_view text);

}  // namespace troupe::core
