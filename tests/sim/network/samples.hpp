// Networks for tests: from text, and drawn from a seed with all that a file may say.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "sim/network/network.hpp"
#include "sim/network/read_network.hpp"
#include "tests/check_ok.hpp"

namespace troupe::sim {

inline network network_of(const std::string& text) { return *tests::check_ok(parse_network(text, "net.yaml")); }

/// Returns a star of devices around one switch; bandwidths in bytes a second, latencies of a link in seconds.
inline network star(uint32_t devices, double bytes_per_s, double latency_s) {
  return network_of(
      fmt::format("kind: network\nnodes: [{{name: box, devices: {}}}]\nswitches: [{{name: hub}}]\nlinks:\n"
                  "  - {{from: box.device(d), to: hub, bandwidth_bytes_per_s: {}, latency_s: {}, direction: both}}\n",
                  devices, bytes_per_s, latency_s));
}

/// Returns two nodes of two devices, 10 B/s each, whose switches have one uplink of 20 B/s each.
inline network two_by_two(const std::string& oversubscription) {
  return network_of("kind: network\nnodes: [{name: node, count: 2, devices: 2, switches: [{name: hub" +
                    oversubscription +
                    "}]}]\nswitches: [{name: spine}]\nlinks:\n"
                    "  - {from: node(n).device(d), to: node(n).hub, bandwidth_bytes_per_s: 10, latency_s: 0, "
                    "direction: both}\n"
                    "  - {from: node(n).hub, to: spine, bandwidth_bytes_per_s: 20, latency_s: 0, direction: both}\n");
}

/// A network as a file describes it, to be changed and named otherwise.
struct drawn_network {
  struct node {
    std::string name;
    uint32_t devices = 1;
  };
  struct network_switch {
    std::string name;
    double oversubscription = 0;  ///< 0: none
  };
  struct line {
    std::string from, to;
    double bytes_per_s = 0, latency_s = 0;
    std::string direction = "both";
    uint32_t cost = 1;
  };
  std::vector<node> nodes;
  std::vector<network_switch> switches;
  std::vector<line> lines;

  [[nodiscard]] std::string text() const {
    std::string out = "kind: network\nnodes:\n";
    for (const auto& n : nodes)
      out += fmt::format("  - {{name: {}, devices: {}, switches: [{{name: hub}}]}}\n", n.name, n.devices);
    out += "switches:\n";
    for (const auto& s : switches)
      out += fmt::format("  - {{name: {}{}}}\n", s.name,
                         s.oversubscription > 0 ? fmt::format(", oversubscription: {}", s.oversubscription) : "");
    out += "links:\n";
    for (const auto& l : lines)
      out +=
          fmt::format("  - {{from: {}, to: {}, bandwidth_bytes_per_s: {}, latency_s: {}, direction: {}, cost: {}}}\n",
                      l.from, l.to, l.bytes_per_s, l.latency_s, l.direction, l.cost);
    return out;
  }
};

/// Returns the network of a seed: one to five nodes of one to four devices, each with a switch, under one to three
/// leaves and up to two spines, and some links between devices. `names`: another number gives other names.
inline drawn_network draw_network(uint64_t seed, uint32_t names = 0) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t n) { return random() % n; };
  const auto real = [&](double least, double most) {
    return least + (most - least) * double(random() >> 11) / double(uint64_t{1} << 53);
  };
  const auto named = [&](const char* what, uint64_t i) {
    return fmt::format("{}{}", what, names == 0 ? i : names - i);
  };
  drawn_network out;
  const auto link = [&](std::string from, std::string to, uint32_t cost = 1) {
    out.lines.push_back({.from = std::move(from),
                         .to = std::move(to),
                         .bytes_per_s = real(1e8, 1e10),
                         .latency_s = real(0, 1e-5),
                         .direction = "both",
                         .cost = cost});
  };
  const uint64_t nodes = 1 + below(5), leaves = 1 + below(3), spines = 1 + below(2);
  std::vector<std::string> devices;
  for (uint64_t i = 0; i < nodes; ++i) {
    out.nodes.push_back({named("node", i), static_cast<uint32_t>(1 + below(4))});
    for (uint32_t d = 0; d < out.nodes.back().devices; ++d) {
      devices.push_back(fmt::format("{}.device{}", out.nodes.back().name, d));
      link(devices.back(), out.nodes.back().name + ".hub");
    }
  }
  for (uint64_t i = 0; i < leaves; ++i) out.switches.push_back({named("leaf", i), below(2) == 0 ? 0 : real(1, 4)});
  for (uint64_t i = 0; i < spines; ++i) out.switches.push_back({named("spine", i), 0});
  for (uint64_t i = 0; i < nodes; ++i) link(out.nodes[i].name + ".hub", named("leaf", i % leaves));
  for (uint64_t l = 0; l < leaves; ++l)
    for (uint64_t s = 0; s < spines; ++s) link(named("leaf", l), named("spine", s));
  for (uint64_t i = 0; i < leaves; ++i)
    if (i >= nodes) out.switches[i].oversubscription = 0;  // has no links from below
  for (uint64_t more = below(4); more > 0 && devices.size() > 1; --more) {
    const uint64_t a = below(devices.size()), b = below(devices.size());
    const bool is_new = std::ranges::none_of(out.lines, [&](const auto& l) {
      return (l.from == devices[a] && l.to == devices[b]) || (l.from == devices[b] && l.to == devices[a]);
    });
    if (a == b || !is_new) continue;
    link(devices[a], devices[b], static_cast<uint32_t>(1 + below(3)));
    if (below(2) == 0) out.lines.back().direction = "forward";
  }
  return out;
}

}  // namespace troupe::sim
