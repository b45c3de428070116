// Several hosts on one machine: a network namespace each, joined by a bridge, whose links can be cut and healed. Owns
// the namespaces; they go with the process that made them. Needs iproute2, and root or a user namespace.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace troupe::tests {

/// Runs this program again where it may make hosts: as root in namespaces of its own, else in a user namespace. Returns
/// where it is there already, and false where neither is allowed, with the reason in `why`.
bool enter_network(int argc, char** argv, std::string& why);

class hosts {
 public:
  /// Hosts 0 to `number` - 1, all connected. Only within `enter_network`. Throws.
  explicit hosts(uint32_t number);

  /// "10.77.0.1" for host 0.
  [[nodiscard]] static std::string address(uint32_t host);
  /// A command as it is run on a host.
  [[nodiscard]] static std::vector<std::string> on(uint32_t host, std::vector<std::string> command);

  /// Nothing passes to and from the host.
  void cut(uint32_t host) const;
  void heal(uint32_t host) const;
  /// Nothing that the host sends passes; what others send does.
  void mute(uint32_t host) const;
  void unmute(uint32_t host) const;
  /// At most so many bytes a second, from each host.
  void slow(uint64_t bits_per_second) const;
  /// The same of one host alone; 0: no limit.
  static void slow(uint32_t host, uint64_t bits_per_second);
  /// Bytes that the host has sent and received so far.
  struct traffic {
    uint64_t sent = 0, received = 0;
  };
  [[nodiscard]] static traffic traffic_of(uint32_t host);

 private:
  uint32_t number_;
};

}  // namespace troupe::tests
