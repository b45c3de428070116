// Which addresses this machine has, and which of them is meant: by an interface's name, or by a name of this machine
// that others know. Owns the choice; sockets are address.hpp's.
#pragma once

#include <string>
#include <vector>

#include "core/error.hpp"

namespace troupe::net {

struct interface_address {
  std::string interface, address;
  bool is_loopback = false;
};
/// Of interfaces that are up, IPv4 first; without addresses that hold on one link only (fe80::).
std::vector<interface_address> own_addresses();

/// The first address of an interface. Errors: bad_input, which names those that have one.
core::result<std::string> address_of_interface(const std::string& name);

/// What a host takes of what is said for it: `bind` where it is given, else the interface's first address, else
/// `otherwise`. Errors: address_of_interface's.
core::result<std::string> chosen_address(const std::string& bind, const std::string& interface,
                                         const std::string& otherwise);

/// As which of its addresses others reach this machine under `host`, a name or an address: itself where it is an
/// address, what the name means where this machine has that; of `*`, of this machine's own name and of one that means
/// loopback, its only address beyond loopback. Errors: bad_input, where that is not clear, and for a name that means
/// nothing, or another machine.
core::result<std::string> own_address_as(const std::string& host);

}  // namespace troupe::net
