// Parses HOST:PORT, also in the form [2001:db8::1]:PORT. Owns the parsing; does not connect to the address.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/number.hpp"

namespace troupe::core {

struct host_port {
  std::string host;  ///< name or address of the host, without brackets
  uint16_t port = 0;
};

/// Returns the host and the port in `text`; nullopt if `text` is not HOST:PORT, or if the port is 0.
inline std::optional<host_port> read_host_port(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string_view::npos)
    return std::nullopt;  // an IPv6 address without brackets: which colon precedes the port is ambiguous
  const auto port = number_of<uint16_t>(text.substr(colon + 1));
  if (host.empty() || !port || *port == 0) return std::nullopt;
  return host_port{std::string(host), *port};
}

/// True for `*`, 0.0.0.0 and ::, on which a program can listen but to which no program can connect.
inline bool is_every_address(std::string_view host) { return host == "*" || host == "0.0.0.0" || host == "::"; }

}  // namespace troupe::core
