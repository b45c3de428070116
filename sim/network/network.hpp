// Defines the network of a simulated job: devices in nodes, switches, and the links between them with their rates. Owns
// the numbering of what flows share; read_network.hpp reads a network from a file, routes.hpp finds ways through it.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace troupe::sim {

/// One direction of a link between two vertices.
struct network_link {
  uint32_t from = 0, to = 0;  ///< vertices
  double bytes_per_s = 0;
  double latency_s = 0;
  uint32_t cost = 1;                                      ///< routes have the least sum of costs
  uint32_t limit = std::numeric_limits<uint32_t>::max();  ///< resource that the link shares with others; no_limit: none

  static constexpr uint32_t no_limit = std::numeric_limits<uint32_t>::max();
};

/// A graph whose vertices are devices and switches. Its *resources* are what flows share: resource i is link i, and the
/// further ones are the limits of oversubscribed switches, one for all uplinks upwards and one downwards.
struct network {
  std::vector<std::string> node_names;
  std::vector<uint32_t> node_of_device;   ///< [device]: number of its node, ascending
  std::vector<std::string> vertex_names;  ///< [vertex]: devices first, in the order of the file, then switches
  std::vector<network_link> links;
  std::vector<double> capacities;  ///< [resource]: bytes a second

  std::vector<uint32_t> out_begin, out_links;  ///< links that leave vertex v: out_links[out_begin[v], out_begin[v + 1])
  std::vector<uint32_t> in_begin, in_links;    ///< links that end at a vertex, in the same form

  [[nodiscard]] uint32_t devices() const { return static_cast<uint32_t>(node_of_device.size()); }
  [[nodiscard]] uint32_t vertices() const { return static_cast<uint32_t>(vertex_names.size()); }
  [[nodiscard]] std::span<const uint32_t> links_from(uint32_t vertex) const {
    return {out_links.data() + out_begin[vertex], out_links.data() + out_begin[vertex + 1]};
  }
  [[nodiscard]] std::span<const uint32_t> links_to(uint32_t vertex) const {
    return {in_links.data() + in_begin[vertex], in_links.data() + in_begin[vertex + 1]};
  }
};

}  // namespace troupe::sim
