// Finds the ways of transfers through a network: those with the least sum of costs, over which a transfer is spread
// evenly. Owns no rates; fair_sharing.hpp divides the bandwidth of links among transfers.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/network/network.hpp"

namespace troupe::sim {

/// A resource of the network that a transfer uses, and the fraction of its bytes that pass there.
struct route_share {
  uint32_t resource = 0;
  double fraction = 1;
};

/// Routes of one network, which has to outlive the object. At each vertex a transfer is divided evenly among the links
/// from which the rest of the way is shortest (equal-cost multipath, each packet sent by itself). Which links these are
/// depends on costs alone, not on names, rates or other transfers. A route may pass through devices.
class network_routes {
 public:
  explicit network_routes(const network& of);

  [[nodiscard]] const network& of() const { return *of_; }
  /// Appends what a transfer between two devices uses, each resource once; nothing if they are one device. Returns the
  /// latency of the way with the longest one, in seconds.
  double append(uint32_t from, uint32_t to, std::vector<route_share>& out);

 private:
  struct hop {
    uint32_t vertex = 0, cost = 0;
  };
  [[nodiscard]] const std::vector<uint32_t>& distances_to(uint32_t device);

  const network* of_;
  std::vector<hop> out_, in_;                     // other ends of network::out_links and in_links, close in memory
  std::vector<std::vector<uint32_t>> distances_;  // [device][vertex]: least cost to the device; empty: not known
  size_t num_kept_ = 0;                           // distances that are kept, in all
  std::vector<double> amount_;                    // [vertex]: fraction that passes the vertex, while a route is found
  std::vector<double> late_s_;                    // [vertex]: latency up to the vertex
  std::vector<double> used_;                      // [resource]: fraction that passes the resource
  std::vector<uint32_t> touched_;                 // resources with a fraction
  std::vector<std::pair<uint32_t, uint32_t>> open_;  // distances and vertices that are not left yet: a heap
  std::vector<uint32_t> ways_;                       // links over which one vertex is left
};

}  // namespace troupe::sim
