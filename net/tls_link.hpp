// Implements a control link to a process of another machine: parcels without descriptors, over TLS. Owns the queue in
// each direction between its holder's thread and the loop's; leaves opening the connection to endpoint.hpp.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/link.hpp"
#include "net/door.hpp"

namespace troupe::net {

/// The loop of an endpoint and of its links. The last owner waits at most 2 s for bytes that are still being sent.
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
  /// Creates a link. `name`: the name in the other end's certificate; `introduction`: the one that the other end sent.
  tls_link(std::shared_ptr<links_room> room, connection c, std::string name, std::string introduction);
  /// Destroys the link without blocking. Queued bytes are still sent in the background, for at most 2 s.
  ~tls_link() override;
  tls_link(const tls_link&) = delete;
  tls_link& operator=(const tls_link&) = delete;

  /// Sends a parcel, like any link. Errors: also bad_input, for a parcel with descriptors.
  core::result<void> send(cluster::parcel p) override;
  core::result<std::vector<cluster::parcel>> receive() override;
  /// Returns a descriptor that is readable when `receive` has a parcel or an error.
  [[nodiscard]] int number() const override;
  /// True if sent bytes are still queued for the other end.
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
