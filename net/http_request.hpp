// Sends one request to an HTTP server and reads its answer: JSON over HTTP/1.0, plain or over TLS, with one connection
// for each request. Owns the connection and its limits; leaves the content to the caller.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/host_port.hpp"
#include "net/address.hpp"
#include "net/identity.hpp"

namespace troupe::net {

struct http_answer {
  int status = 0;
  std::string body;
};
/// Largest size of an HTTP answer, head and body together, in bytes; a longer one is refused.
inline constexpr size_t http_answer_bytes_max = size_t{256} << 10U;

/// Returns all addresses of a host, in the order in which they should be tried. Blocks on the system's resolver.
/// Errors: peer_lost, if the host has none.
core::result<std::vector<address>> addresses_of(const core::host_port& of);

struct http_server {
  address at;
  core::host_port named;         ///< host and port of the server; its certificate must be for this host
  const identity* as = nullptr;  ///< identity of the client for TLS; null: the connection is plain
};

/// Posts `body` and waits for the answer until `deadline_ns` (core::now_ns). Errors: peer_lost, if there is no answer
/// until then; limit, for an answer that is too long; mismatch, for an answer that is not HTTP, or a certificate that
/// is not for the server.
core::result<http_answer> post(const http_server& to, const std::string& path, const std::string& body,
                               int64_t deadline_ns);

}  // namespace troupe::net
