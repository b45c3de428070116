// A link of control to a process of another machine: parcels without descriptors, over TLS. Owns the queue each way
// between its holder's thread and the loop's; how the connection came to be is endpoint.hpp's.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cluster/link.hpp"
#include "net/door.hpp"

namespace troupe::net {

/// The loop of an endpoint and of its links; whoever is last waits a little for what is still being sent.
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
  /// `name`: of the other end's certificate; `introduction`: what it said of itself.
  tls_link(std::shared_ptr<links_room> room, connection c, std::string name, std::string introduction);
  /// What waits is still sent, for at most 2 s; waits for nothing.
  ~tls_link() override;
  tls_link(const tls_link&) = delete;
  tls_link& operator=(const tls_link&) = delete;

  /// As links do. Errors: also bad_input, for a parcel with descriptors.
  core::result<void> send(cluster::parcel p) override;
  core::result<std::vector<cluster::parcel>> receive() override;
  /// Readable when `receive` has something to give, or an error.
  [[nodiscard]] int number() const override;
  /// Something that was sent waits for the other end.
  [[nodiscard]] bool is_sending() const;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::string& introduction() const { return introduction_; }
  [[nodiscard]] const std::string& address() const { return address_; }
  /// This end's IP address.
  [[nodiscard]] const std::string& own_address() const { return own_address_; }

 private:
  class traffic;

  std::shared_ptr<links_room> room_;
  std::string name_, introduction_, address_, own_address_;
  std::shared_ptr<traffic> traffic_;
  cluster::frame_reader in_;
};

}  // namespace troupe::net
