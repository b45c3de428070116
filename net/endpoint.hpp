// Opens links to other machines: listens and connects, with one identity. Owns the thread that all its links share, the
// listening socket with the connections that are still being opened (connector.hpp), and the accepted links that
// accepted() has not returned yet.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "net/link_hello.hpp"
#include "net/tls_link.hpp"

namespace troupe::net {

struct endpoint_setup {
  identity me;
  /// Decides, on an end that listens, whether a host is accepted, and returns this end's introduction for the host.
  /// Called on the endpoint's thread. Empty: all hosts of the job are accepted.
  admission admit{};
  /// Called on the endpoint's thread for each refused connection, with the reason as a message for the user.
  std::function<void(const core::error&)> on_refused{};
};

class endpoint {
 public:
  /// Starts the endpoint's thread. Errors: limit.
  static core::result<std::unique_ptr<endpoint>> open(endpoint_setup setup);
  ~endpoint();
  endpoint(const endpoint&) = delete;
  endpoint& operator=(const endpoint&) = delete;

  /// Listens, at most once, and returns the port. `address`: an address of this machine, or * for all; port 0: the
  /// system chooses the port. Errors: bad_input, limit.
  core::result<uint16_t> listen(const std::string& address, uint16_t port);
  /// Returns a descriptor that is readable when `accepted` would return a link.
  [[nodiscard]] int number() const { return event_->number(); }
  /// Returns the links that were accepted since the last call. Callable from any thread.
  std::vector<std::unique_ptr<tls_link>> accepted();

  /// Waits, at most `within_ns`, for a link to a host whose certificate is for `wanted`. Callable from any thread but
  /// the endpoint's. Errors: peer_lost, if no endpoint answers; mismatch, if one end refuses the other; bad_input, for
  /// an introduction that is too long.
  core::result<std::unique_ptr<tls_link>> connect(const std::string& host, uint16_t port, const std::string& wanted,
                                                  const std::string& introduction,
                                                  int64_t within_ns = connector_options{}.deadline_ns);

 private:
  endpoint(endpoint_setup setup, std::shared_ptr<links_room> room);
  void hear(core::result<connection> c, std::unique_ptr<first_words> words);

  endpoint_setup setup_;
  std::shared_ptr<links_room> room_;
  cluster::shared_descriptor event_;
  std::unique_ptr<connector> connector_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<tls_link>> accepted_;
};

}  // namespace troupe::net
