// Addresses of machines and ports on them, and sockets that listen, connect and accept there. Owns their text and the
// system's calls; nothing here waits.
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
  /// "10.0.0.3", "::1"
  [[nodiscard]] std::string host() const;
  /// "10.0.0.3:4242", "[::1]:4242"
  [[nodiscard]] std::string text() const;

  sockaddr_storage storage{};
  socklen_t bytes = 0;
};

/// Of "10.0.0.3", "::1", or "*" for every address of this machine. Errors: bad_input, for what is no address.
core::result<address> numeric_address(const std::string& text, uint16_t port);
/// Whether a text is an address, not a name.
bool is_numeric(const std::string& host);
/// Of the 4 or 16 bytes of an address; empty for others.
std::string address_text(std::string_view bytes);
/// `HOST:PORT`, with brackets around what has colons.
std::string place_text(const std::string& host, uint16_t port);

/// A listening socket that does not block. Errors: bad_input, where the address is no own one or taken; limit.
core::result<int> listen_at(const address& at);
/// Errors: limit.
core::result<address> address_of(int socket);
/// Of the other end; empty text where there is none any more.
address peer_of(int socket);
/// A socket on its way to `to`: writable once it is there or has failed (`connected`). Errors: peer_lost, limit.
core::result<int> begin_connect(const address& to);
core::result<void> connected(int socket);
/// One connection that waits: a socket that does not block. -1 where none does, -2 where the system has no room now.
int accept_from(int listening);
/// What is sent goes at once; closing does not wait. `queue_bytes`: how much the system keeps that it has not sent yet.
void prepare(int socket, int queue_bytes);

}  // namespace troupe::net
