// Serves GET over TCP with one thread, without blocking calls; the number of connections is bounded, each has a time
// limit and gets one answer. Owns the socket, the thread and the limits. Leaves the answers to the caller.
//
// Reason for not using a library: cpp-httplib of Debian 12 (0.11.4) keeps a header line of any length in memory, and
// any number of connections, before the program can refuse them, so that a visitor could exhaust the memory and the
// descriptors that training needs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "apps/page/http_request.hpp"
#include "apps/page/secure_channel.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// Limit of simultaneous connections; a further connection closes the oldest one.
inline constexpr size_t visitors_max = 64;
/// Nanoseconds within which a request must arrive, and within which its answer must be sent.
inline constexpr int64_t request_arrives_ns_max = 5'000'000'000, answer_leaves_ns_max = 15'000'000'000;

/// Function that answers a GET request for a path. Runs on the server's thread.
using page_answering = std::function<http_answer(const http_request&)>;

class http_server {
 public:
  /// Listens at `host`, an address or a name, and `port`; with 0 the system chooses the port. Errors: bad_input with
  /// the reason if the system refuses the address; limit if it has no descriptor or thread left.
  static core::result<std::unique_ptr<http_server>> open(const std::string& host, uint16_t port,
                                                         std::unique_ptr<channel_maker> channels,
                                                         page_answering answer);
  ~http_server();  ///< closes all connections
  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;
  [[nodiscard]] uint16_t port() const { return port_; }

 private:
  struct visitor;
  http_server() = default;
  void serve();
  /// Continues a visitor's transfer without blocking. Returns false once the visitor is finished.
  bool go_on(visitor& v) const;

  int socket_ = -1, stop_ = -1;
  uint16_t port_ = 0;
  std::unique_ptr<channel_maker> channels_;
  page_answering answer_;
  std::thread thread_;
};

/// Opens a socket that listens at `host` and `port`. Errors: bad_input with the reason if the system refuses.
core::result<int> listen_at(const std::string& host, uint16_t port);

}  // namespace troupe::apps
