// A request of HTTP/1.1 and an answer to one, as far as a page needs them: GET without a body. Pure functions; owns no
// connection (http_server.hpp) and does not know who may ask (page.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::apps {

/// Longest request, headers and all.
inline constexpr size_t request_bytes_max = 8192;

struct http_request {
  std::string method, path, query;          ///< "/?a=b": "/", "a=b"; neither is decoded
  std::string host, authorization, cookie;  ///< headers; empty where there is none
};

/// What bytes that have come so far are.
struct http_reading {
  bool is_whole = false;  ///< else more of them are wanted
  int refused = 0;        ///< the status to answer with where they are no request that a page takes; else 0
  http_request request;   ///< once whole and not refused
};
http_reading read_http_request(std::string_view bytes);

struct http_answer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8", body = {};
  std::string headers = {};  ///< further ones, each with its line end
};
/// As bytes for the connection, which ends with it. `secure`: it was asked through TLS.
std::string http_text(const http_answer& a, bool secure);

/// The name or address that a Host header says, in small letters, without brackets and port; empty where the header is
/// anything but HOST or HOST:PORT.
std::string host_named(std::string_view header);

/// The value of `name` in "a=b&c=d" or, with `;`, in "a=b; c=d"; empty where there is none.
std::string_view value_in(std::string_view pairs, std::string_view name, char between);

/// Whether both are the same; takes as long wherever they differ.
bool same_secret(std::string_view a, std::string_view b);

}  // namespace troupe::apps
