// HOST:PORT as people write it, also [2001:db8::1]:PORT. Owns the reading; whether anybody is there is another matter.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::core {

struct host_port {
  std::string host;  ///< without brackets
  uint16_t port = 0;
};

/// Nothing for what is not so; port 0 is none.
std::optional<host_port> read_host_port(std::string_view text);

/// `*`, 0.0.0.0 or ::, where one listens and nobody can connect to.
inline bool is_every_address(std::string_view host) { return host == "*" || host == "0.0.0.0" || host == "::"; }

}  // namespace troupe::core
