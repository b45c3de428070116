#include "tests/machines/hosts.hpp"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace troupe::tests {
namespace {

constexpr const char* inside = "TROUPE_TEST_NETWORK";

int shell(const std::string& line) { return std::system(line.c_str()); }

void must(const std::string& line) {
  if (shell(line) != 0) throw std::runtime_error("hosts: failed: " + line);
}

std::string bridge_port(uint32_t host) { return fmt::format("port{}", host); }

}  // namespace

bool enter_network(int argc, char** argv, std::string& why) {
  if (std::getenv(inside) != nullptr) return true;
  if (shell("command -v ip >/dev/null 2>&1 && command -v unshare >/dev/null 2>&1") != 0) {
    why = "iproute2 is not installed";
    return false;
  }
  std::vector<std::string> how = {"unshare", "--net", "--mount"};
  if (shell("unshare --net --mount true 2>/dev/null") != 0) {
    how.emplace_back("--map-root-user");
    if (shell("unshare --net --mount --map-root-user true 2>/dev/null") != 0) {
      why = "neither root's nor a user's network namespaces are allowed here";
      return false;
    }
  }
  how.emplace_back("--");
  std::vector<char*> command;
  for (auto& x : how) command.push_back(x.data());
  for (int i = 0; i < argc; ++i) command.push_back(argv[i]);
  std::string self = "/proc/self/exe";
  char path[4096];
  if (const auto n = ::readlink(self.c_str(), path, sizeof path - 1); n > 0) self.assign(path, static_cast<size_t>(n));
  command[how.size()] = self.data();
  command.push_back(nullptr);
  ::setenv(inside, "1", 1);
  ::execvp(command[0], command.data());
  why = "unshare cannot be executed";
  return false;
}

hosts::hosts(uint32_t number) : number_(number) {
  must("mount -t tmpfs hosts /run && mkdir -p /run/netns");
  must("ip link set lo up && ip link add bridge type bridge && ip link set bridge up");
  for (uint32_t h = 0; h < number; ++h) {
    const std::string port = bridge_port(h);
    must(fmt::format("ip netns add h{0} && ip link add {1} type veth peer name eth0 netns h{0}", h, port));
    must(fmt::format("ip link set {} master bridge && ip link set {} up", port, port));
    must(fmt::format("ip -n h{0} addr add {1}/24 dev eth0 && ip -n h{0} link set eth0 up && ip -n h{0} link set lo up",
                     h, address(h)));
  }
}

std::string hosts::address(uint32_t host) { return fmt::format("10.77.0.{}", host + 1); }

std::vector<std::string> hosts::on(uint32_t host, std::vector<std::string> command) {
  std::vector<std::string> out = {"/usr/bin/env", "ip", "netns", "exec", fmt::format("h{}", host)};
  out.insert(out.end(), command.begin(), command.end());
  return out;
}

void hosts::cut(uint32_t host) const { must(fmt::format("ip link set {} down", bridge_port(host))); }
void hosts::heal(uint32_t host) const { must(fmt::format("ip link set {} up", bridge_port(host))); }

// The route has a longer prefix than the interface's, so packets to all other hosts are dropped.
void hosts::mute(uint32_t host) const { must(fmt::format("ip -n h{} route add blackhole 10.77.0.0/28", host)); }
void hosts::unmute(uint32_t host) const { must(fmt::format("ip -n h{} route del blackhole 10.77.0.0/28", host)); }

void hosts::slow(uint64_t bits_per_second) const {
  for (uint32_t h = 0; h < number_; ++h) slow(h, bits_per_second);
}

void hosts::slow(uint32_t host, uint64_t bits_per_second) {
  const std::string on = fmt::format("ip netns exec h{} tc qdisc ", host);
  must(bits_per_second == 0
           ? on + "del dev eth0 root"
           : fmt::format("{}replace dev eth0 root tbf rate {}bit burst 64kb latency 50ms", on, bits_per_second));
}

hosts::traffic hosts::traffic_of(uint32_t host) {
  const auto read = [&](const char* which) {
    const std::string line = fmt::format("ip netns exec h{} cat /sys/class/net/eth0/statistics/{}_bytes", host, which);
    std::FILE* const in = ::popen(line.c_str(), "r");
    unsigned long long n = 0;
    if (in != nullptr) {
      if (std::fscanf(in, "%llu", &n) != 1) n = 0;
      ::pclose(in);
    }
    return static_cast<uint64_t>(n);
  };
  return {read("tx"), read("rx")};
}

}  // namespace troupe::tests
