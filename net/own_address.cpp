#include "net/own_address.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>

#include "net/address.hpp"

namespace troupe::net {
namespace {

constexpr const char* with_addresses = "; interfaces with an address: ";

std::string names_of(const std::vector<interface_address>& all) {
  std::set<std::string> names;
  std::string out;
  for (const auto& a : all)
    if (names.insert(a.interface).second) out += (out.empty() ? "" : ", ") + a.interface;
  return out.empty() ? "none" : out;
}

bool is_link_local(const ::sockaddr* a) {
  return a->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr);
}

/// Result of resolving a host name: its addresses, or the system's reason why there are none.
struct meaning {
  std::vector<std::string> addresses;
  std::string why_none;
};
meaning meaning_of(const std::string& host) {
  ::addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  meaning out;
  if (const int wrong = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); wrong != 0) {
    out.why_none = ::gai_strerror(wrong);
    return out;
  }
  const std::unique_ptr<::addrinfo, decltype(&::freeaddrinfo)> owned(found, ::freeaddrinfo);
  for (const auto* a = found; a != nullptr; a = a->ai_next)
    out.addresses.push_back(address::of(a->ai_addr, a->ai_addrlen).host());
  return out;
}

/// True if the names are equal or one is the other with a domain, such as `node7` and `node7.cluster`.
bool is_same_machine(const std::string& a, const std::string& b) {
  return a == b || a.starts_with(b + ".") || b.starts_with(a + ".");
}

/// True if `host` is this machine's own name. Does not resolve the name, because a new pod's name may not resolve yet.
bool is_name_of_this_machine(const std::string& host) {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 && name.front() != '\0' && is_same_machine(host, name.data());
}

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

}  // namespace

std::vector<interface_address> own_addresses() {
  ::ifaddrs* found = nullptr;
  std::vector<interface_address> out;
  if (::getifaddrs(&found) != 0) return out;
  const std::unique_ptr<::ifaddrs, decltype(&::freeifaddrs)> owned(found, ::freeifaddrs);
  for (const int family : {AF_INET, AF_INET6})
    for (const auto* i = found; i != nullptr; i = i->ifa_next) {
      const bool serves = i->ifa_addr != nullptr && i->ifa_addr->sa_family == family && (i->ifa_flags & IFF_UP) != 0;
      if (!serves || is_link_local(i->ifa_addr)) continue;
      const size_t bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      out.push_back({i->ifa_name, address::of(i->ifa_addr, bytes).host(), (i->ifa_flags & IFF_LOOPBACK) != 0});
    }
  return out;
}

core::result<std::string> address_of_interface(const std::string& name) {
  const auto all = own_addresses();
  const auto at = std::ranges::find(all, name, &interface_address::interface);
  if (at != all.end()) return at->address;
  const bool is_there = ::if_nametoindex(name.c_str()) != 0;
  return core::fail(core::error_kind::bad_input,
                    "cluster.interface: wanted a network interface of this machine that has an address, got " + name +
                        (is_there ? ", which has none or is down" : ", which does not exist") + with_addresses +
                        names_of(all));
}

core::result<std::string> chosen_address(const std::string& bind, const std::string& interface,
                                         const std::string& otherwise) {
  if (!bind.empty()) return bind;
  return interface.empty() ? otherwise : address_of_interface(interface);
}

core::result<std::string> own_address_as(const std::string& host) {
  if (is_numeric(host)) return host;
  auto all = own_addresses();
  const auto refused = [&](const std::string& why) {
    return core::fail(core::error_kind::bad_input,
                      "set cluster.interface, or give an address of this machine instead of " + host + ", which " +
                          why + with_addresses + names_of(all));
  };
  const auto means = meaning_of(host);
  std::string loopback;
  for (const auto& one : means.addresses) {
    const auto at = std::ranges::find(all, one, &interface_address::address);
    if (at != all.end() && !at->is_loopback) return one;
    if (loopback.empty() && (at != all.end() || is_loopback(one))) loopback = one;
  }
  if (host == "localhost" && !loopback.empty()) return loopback;
  // Debian's /etc/hosts maps a machine's own name to 127.0.1.1, by which other machines cannot reach it.
  std::erase_if(all, [](const auto& a) { return a.is_loopback; });
  if (loopback.empty() && host != "*" && !is_name_of_this_machine(host))
    return means.addresses.empty()
               ? refused("has no address (" + means.why_none + ")")
               : refused("resolves to " + means.addresses.front() + ", not an address of this machine");
  if (all.empty() && !loopback.empty()) return loopback;
  std::set<std::string> interfaces;
  for (const auto& a : all) interfaces.insert(a.interface);
  if (interfaces.size() == 1) return all.front().address;
  return refused("does not select one of this machine's interfaces");
}

}  // namespace troupe::net
