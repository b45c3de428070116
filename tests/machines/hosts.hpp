// Simulates several hosts on one machine: a network namespace for each, connected by a bridge; tests interrupt and
// restore the connections. Owns the namespaces, which end with the process that created them. Requires iproute2, and
// root or a user namespace.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace troupe::tests {

/// Runs this program again in a namespace that may create hosts: as root in namespaces of its own, otherwise in a user
/// namespace. Returns true in the program that already runs there; returns false, with the reason in `why`, if the
/// machine allows neither.
bool enter_network(int argc, char** argv, std::string& why);

class hosts {
 public:
  /// Creates hosts 0 to `number` - 1, all connected. Requires that enter_network() returned true. Throws on failure.
  explicit hosts(uint32_t number);

  /// Returns the IPv4 address of the host: "10.77.0.1" for host 0.
  [[nodiscard]] static std::string address(uint32_t host);
  /// Returns a command that runs `command` in the network namespace of the host.
  [[nodiscard]] static std::vector<std::string> on(uint32_t host, std::vector<std::string> command);

  /// Blocks all packets to and from the host.
  void cut(uint32_t host) const;
  void heal(uint32_t host) const;
  /// Blocks the packets that the host sends; it still receives the packets of other hosts.
  void mute(uint32_t host) const;
  void unmute(uint32_t host) const;
  /// Limits the rate at which each host sends, in bits per second; 0: no limit.
  void slow(uint64_t bits_per_second) const;
  /// Limits the rate at which `host` sends, in bits per second; 0: no limit.
  static void slow(uint32_t host, uint64_t bits_per_second);
  /// Numbers of bytes that a host has sent and received since its creation.
  struct traffic {
    uint64_t sent = 0, received = 0;
  };
  [[nodiscard]] static traffic traffic_of(uint32_t host);

 private:
  uint32_t number_;
};

}  // namespace troupe::tests
