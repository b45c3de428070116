// Connects agents over a Unix socket on this machine, in place of the network connections of net/.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cluster/launch.hpp"

namespace troupe::tests {

class unix_arrivals final : public cluster::arrivals {
 public:
  /// Starts to listen at the socket file `path`.
  explicit unix_arrivals(const std::filesystem::path& path);
  [[nodiscard]] int number() const override { return listening_->number(); }
  std::vector<cluster::arrival> take() override;

 private:
  cluster::shared_descriptor listening_;
};

/// Returns the agent's end of a connection to `path`; retries until a process listens there.
std::unique_ptr<cluster::polled_link> join_at(const std::filesystem::path& path, const std::string& host);

}  // namespace troupe::tests
