// Serves GET over TCP: one thread, no call that waits, a bounded number of connections, each for a bounded time and one
// answer. Owns the socket, the thread and the limits; what is answered is the caller's.
//
// Why not a library: cpp-httplib as Debian 12 has it (0.11.4) keeps a header line of any length in memory, and any
// number of connections, before anyone can refuse them: a visitor could take the memory and the descriptors that
// training needs.
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

/// Connections at a time: beyond them the one that has been silent for longest ends.
inline constexpr size_t visitors_max = 64;
/// How long a request may take to come, and an answer to go.
inline constexpr int64_t request_arrives_ns_max = 5'000'000'000, answer_leaves_ns_max = 15'000'000'000;

/// On the server's thread; the request is a GET of a path.
using page_answering = std::function<http_answer(const http_request&)>;

class http_server {
 public:
  /// Listens at `host`, an address or a name, and `port`, 0 for any. Errors: bad_input where it may not, with the
  /// reason.
  static core::result<std::unique_ptr<http_server>> open(const std::string& host, uint16_t port,
                                                         std::unique_ptr<channel_maker> channels,
                                                         page_answering answer);
  ~http_server();  ///< ends all connections
  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;
  [[nodiscard]] uint16_t port() const { return port_; }

 private:
  struct visitor;
  http_server() = default;
  void serve();
  /// False once the visitor is done with.
  bool go_on(visitor& v) const;

  int socket_ = -1, stop_ = -1;
  uint16_t port_ = 0;
  std::unique_ptr<channel_maker> channels_;
  page_answering answer_;
  std::thread thread_;
};

/// A socket that listens there. Errors: as http_server::open.
core::result<int> listen_at(const std::string& host, uint16_t port);

}  // namespace troupe::apps
