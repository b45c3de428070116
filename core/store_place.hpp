// Parses the addresses of the store that elects a job's leader: etcd://HOST:PORT,HOST:PORT, or etcds:// if the store
// requires TLS. Owns the parsing; does not connect to the members.
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

/// Returns the HOST:PORT of each etcd server in `text`; nullopt if `text` is not etcd:// or etcds:// followed by 1 to
/// `store_members_max` servers, separated by commas.
std::optional<store_place> read_store(std::string_view text);

}  // namespace troupe::core
