// Parses requests of HTTP/1.1 and formats answers. Supports only GET without a body, because a run's page needs no
// more. Pure functions. Leaves connections to http_server.hpp, and access to page.hpp.
#pragma once

#include <string>
#include <string_view>

namespace troupe::apps {

/// Limit of a request in bytes, including its headers.
inline constexpr size_t request_bytes_max = 8192;

struct http_request {
  std::string method, path, query;          ///< "/?a=b" has path "/" and query "a=b"; neither is decoded
  std::string host, authorization, cookie;  ///< values of the headers of these names; empty: no such header
};

/// State of a request whose bytes arrive piece by piece.
struct http_reading {
  bool is_whole = false;  ///< true: the request is complete; false: more bytes are needed
  int refused = 0;        ///< HTTP status of the refusal, for bytes that are not a valid GET request; else 0
  http_request request;   ///< the parsed request; set if `is_whole` and not refused
};
http_reading read_http_request(std::string_view bytes);

struct http_answer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8", body = {};
  std::string headers = {};  ///< further headers of the answer, each with its line end
};
/// Returns the answer as bytes for a connection that is closed afterwards. `secure`: the request came through TLS.
std::string http_text(const http_answer& a, bool secure);

/// Returns the name or address in a Host header, in lower case, without brackets and port; empty if the header is
/// anything but HOST or HOST:PORT.
std::string host_named(std::string_view header);

/// Returns the value of `name` in "a=b&c=d" or, with `;`, in "a=b; c=d"; empty if missing.
std::string_view value_in(std::string_view pairs, std::string_view name, char between);

/// True if both texts are equal. Compares in a time that does not depend on where they differ, so that a visitor cannot
/// guess a secret part by part.
bool same_secret(std::string_view a, std::string_view b);

}  // namespace troupe::apps
