// Finds the addresses of this machine, and selects one by the name of an interface, or by a name by which other
// machines reach this one. Owns the choice; leaves sockets to address.hpp.
#pragma once

#include <string>
#include <vector>

#include "core/error.hpp"

namespace troupe::net {

struct interface_address {
  std::string interface, address;
  bool is_loopback = false;
};
/// Returns the addresses of network interfaces that are up, IPv4 first, without link-local IPv6 addresses (fe80::).
std::vector<interface_address> own_addresses();

/// Returns the first address of network interface `name`. Errors: bad_input, if the interface has none; the text names
/// the interfaces that have an address.
core::result<std::string> address_of_interface(const std::string& name);

/// Returns the address that this host listens at: `bind` unless it is empty, else the first address of `interface`
/// unless that is empty, else `otherwise`. Errors: bad_input, if the interface has no address.
core::result<std::string> chosen_address(const std::string& bind, const std::string& interface,
                                         const std::string& otherwise);

/// Returns the address by which other machines reach this one under `host`, a name or an address. An address is
/// returned unchanged. For a name, returns the address to which it resolves, if this machine has that address. For `*`,
/// this machine's own name and a name that resolves to loopback, returns the first address of the only interface beyond
/// loopback; loopback itself for `localhost`, or if a name resolves to it and there is no other interface. Errors:
/// bad_input, if several interfaces are possible or none, and for a name that does not resolve, or resolves to another
/// machine.
core::result<std::string> own_address_as(const std::string& host);

}  // namespace troupe::net
