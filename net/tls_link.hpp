// Implements a control link to a process of another machine: parcels without descriptors, over TLS. Owns the queues,
// one in each direction, between the thread that uses the link and the loop's thread; leaves opening the connection to
// endpoint.hpp.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/link.hpp"
#include "net/connector.hpp"

namespace troupe::net {

/// Owns the loop that an endpoint shares with its links, and counts the links. The destructor waits at most 2 s for
/// links that are still sending.
class links_room {
 public:
  explicit links_room(std::unique_ptr<io_loop> loop) : loop_(std::move(loop)) {}
  ~links_room();
  [[nodiscard]] io_loop& loop() const { return *loop_; }
  void enter();
  void leave();

 private:
  std::mutex mutex_;
  std::condition_variable left_;
  size_t links_ = 0;
  std::unique_ptr<io_loop> loop_;
};

class tls_link final : public cluster::polled_link {
 public:
  /// Creates a link over an open connection. `name`: name in the other end's certificate; `introduction`: text that the
  /// other end sent about itself.
  tls_link(std::shared_ptr<links_room> room, connection c, std::string name, std::string introduction);
  /// Destroys the link without blocking. Queued bytes are still sent in the background, for at most 2 s.
  ~tls_link() override;
  tls_link(const tls_link&) = delete;
  tls_link& operator=(const tls_link&) = delete;

  /// Queues a parcel for sending. Errors: bad_input, for a parcel with descriptors; limit, if too many bytes are
  /// queued; the error that ended the link.
  core::result<void> send(cluster::parcel p) override;
  core::result<std::vector<cluster::parcel>> receive() override;
  /// Returns a descriptor that is readable when `receive` would return a parcel or an error.
  [[nodiscard]] int number() const override;
  /// True if bytes of parcels that were passed to `send` are still queued.
  [[nodiscard]] bool is_sending() const;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& introduction() const { return introduction_; }
  [[nodiscard]] const std::string& address() const { return address_; }
  /// Returns this end's IP address.
  [[nodiscard]] const std::string& own_address() const { return own_address_; }

 private:
  class traffic;

  std::shared_ptr<links_room> room_;
  std::string name_, introduction_, address_, own_address_;
  std::shared_ptr<traffic> traffic_;
  cluster::frame_reader in_;
};

}  // namespace troupe::net
