// Where links to other machines begin: listens for them and connects to others, as one identity. Owns the thread that
// all its links share, the door, and the links that nobody has taken yet.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "net/greeting.hpp"
#include "net/tls_link.hpp"

namespace troupe::net {

struct endpoint_setup {
  identity me;
  /// Of an end that listens: who is let in, and what it is told. Called on the endpoint's thread; none: all hosts of
  /// the job.
  admission admit{};
  /// Each connection that was not let in, as a sentence for people. Called on the endpoint's thread.
  std::function<void(const core::error&)> on_refused{};
};

class endpoint {
 public:
  /// Errors: limit.
  static core::result<std::unique_ptr<endpoint>> open(endpoint_setup setup);
  ~endpoint();
  endpoint(const endpoint&) = delete;
  endpoint& operator=(const endpoint&) = delete;

  /// Once; port 0: one that the system gives. `address`: of this machine, or * for all. Gives the port. Errors:
  /// bad_input, limit.
  core::result<uint16_t> listen(const std::string& address, uint16_t port);
  /// Readable when `accepted` has something.
  [[nodiscard]] int number() const { return event_->number(); }
  /// Links that have come since. Any thread.
  std::vector<std::unique_ptr<tls_link>> accepted();

  /// Waits, at most so long, for a link to a host whose certificate is for `wanted`. Any thread but the endpoint's.
  /// Errors: peer_lost, where nobody is there; mismatch, where one end refuses the other; bad_input, for an
  /// introduction that is too long.
  core::result<std::unique_ptr<tls_link>> connect(const std::string& host, uint16_t port, const std::string& wanted,
                                                  const std::string& introduction,
                                                  int64_t within_ns = door_options{}.deadline_ns);

 private:
  endpoint(endpoint_setup setup, std::shared_ptr<links_room> room);
  void hear(core::result<connection> c, std::unique_ptr<first_words> words);

  endpoint_setup setup_;
  std::shared_ptr<links_room> room_;
  cluster::shared_descriptor event_;
  std::unique_ptr<door> door_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<tls_link>> accepted_;
};

}  // namespace troupe::net
