// One question to an HTTP server and its answer: JSON over HTTP/1.0, plain or over TLS, a connection for each. Owns the
// connection and its limits; what is asked is the caller's.
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
/// Of a whole answer.
inline constexpr size_t http_answer_bytes_max = size_t{256} << 10U;

/// All addresses of a host, in the order in which they should be tried. Waits for the system's resolver. Errors:
/// peer_lost, where it has none.
core::result<std::vector<address>> addresses_of(const core::host_port& of);

struct http_server {
  address at;
  core::host_port named;         ///< as it is called, and as its certificate has it
  const identity* as = nullptr;  ///< who asks, over TLS; null: over a plain connection
};

/// Posts `body` and waits for the answer until `deadline_ns` (core::now_ns). Errors: peer_lost, where nobody answers
/// until then; limit, for an answer that is too long; mismatch, for one that is no HTTP, or a certificate that is not
/// the server's.
core::result<http_answer> post(const http_server& to, const std::string& path, const std::string& body,
                               int64_t deadline_ns);

}  // namespace troupe::net
