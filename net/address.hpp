// Owns IP addresses with ports, and their text; and the system calls of sockets that listen at, connect to and accept
// from such addresses. No function blocks.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace troupe::net {

struct address {  ///< an IP address and a port
  static address of(const void* sockaddr, size_t bytes);
  [[nodiscard]] const ::sockaddr* get() const { return reinterpret_cast<const ::sockaddr*>(&storage); }
  [[nodiscard]] uint16_t port() const;
  /// Returns the address without the port: "10.0.0.3", "::1".
  [[nodiscard]] std::string host() const;
  /// Returns the address with the port: "10.0.0.3:4242", "[::1]:4242".
  [[nodiscard]] std::string text() const;

  sockaddr_storage storage{};
  socklen_t bytes = 0;
};

/// Returns the address that `text` contains, such as "10.0.0.3" or "::1", with `port`; "*" is every address of this
/// machine. Errors: bad_input, for a text that is not an address.
core::result<address> numeric_address(const std::string& text, uint16_t port);
/// True if `host` is the text of an IP address, as opposed to a host name.
bool is_numeric(const std::string& host);
/// Returns the text of the IP address in `bytes`, 4 or 16 in network order; empty for any other length.
std::string address_text(std::string_view bytes);
/// Returns an address as text `HOST:PORT`, with brackets around a host that contains colons.
std::string place_text(const std::string& host, uint16_t port);

/// Returns a non-blocking listening socket. Errors: bad_input, if the address is taken or does not belong to this
/// machine; limit.
core::result<int> listen_at(const address& at);
/// Returns the address of this end of a socket's connection. Errors: limit.
core::result<address> address_of(int socket);
/// Returns the address of the other end of a socket's connection; the text is empty if the connection has ended.
address peer_of(int socket);
/// Returns a non-blocking socket that is connecting to `to`. The socket becomes writable when the connection is made or
/// has failed; `connected` returns the outcome. Errors: peer_lost, limit.
core::result<int> begin_connect(const address& to);
core::result<void> connected(int socket);
/// Accepts one waiting connection and returns its non-blocking socket. Returns -1 if no connection is waiting, -2 if
/// the system has no free descriptors or memory now.
int accept_from(int listening);
/// Sets the options of a connected socket: small writes are sent without delay (TCP_NODELAY), and the first repetitions
/// of lost bytes come at a constant interval. `queue_bytes`: limit of the unsent bytes that the system buffers; 0: the
/// system's default.
void prepare(int socket, int queue_bytes);

}  // namespace troupe::net
