// Parses HOST:PORT, also in the form [2001:db8::1]:PORT. Owns the parsing; does not connect to the address.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::core {

struct host_port {
  std::string host;  ///< name or address of the host, without brackets
  uint16_t port = 0;
};

/// Returns the host and the port in `text`; nullopt if `text` is not HOST:PORT, or if the port is 0.
std::optional<host_port> read_host_port(std::string_view text);

/// True for `*`, 0.0.0.0 and ::, on which a program can listen but to which no program can connect.
inline bool is_every_address(std::string_view host) { return host == "*" || host == "0.0.0.0" || host == "::"; }

}  // namespace troupe::core
