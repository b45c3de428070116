// Agents that come over a socket of this machine: what net/ does over the network, without it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cluster/launch.hpp"

namespace troupe::tests {

class unix_arrivals final : public cluster::arrivals {
 public:
  /// Listens at `path`.
  explicit unix_arrivals(const std::filesystem::path& path);
  [[nodiscard]] int number() const override { return listening_->number(); }
  std::vector<cluster::arrival> take() override;

 private:
  cluster::shared_descriptor listening_;
};

/// The agent's end, once somebody listens there.
std::unique_ptr<cluster::polled_link> join_at(const std::filesystem::path& path, const std::string& host);

}  // namespace troupe::tests
