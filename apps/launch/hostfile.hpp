// Parses DeepSpeed's hostfiles, with lines `HOST slots=N` or `USER@HOST slots=N`, and its filters for them. Leaves
// starting programs to launch_command.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::apps {

struct host_slots {
  std::string name{};
  std::string user{};             ///< user name for ssh; empty: the one that ssh's own configuration chooses
  std::vector<uint32_t> slots{};  ///< numbers of the host's slots; each slot is one rank
  bool is_whole = true;           ///< false if a filter has removed slots

  /// Returns the destination for ssh.
  [[nodiscard]] std::string destination() const { return user.empty() ? name : user + "@" + name; }
};

inline constexpr uint32_t slots_max = 65'536;  ///< largest number of slots of one host

/// Returns the hosts in the order of the file; errors contain `name`. Errors: bad_input for lines of another form,
/// repeated hosts, hosts without slots, and a file without hosts.
core::result<std::vector<host_slots>> read_hostfile(std::string_view text, const std::string& name);

/// Keeps the hosts and slots of `include`, or removes those of `exclude`; at most one of the two may be non-empty. A
/// filter has entries `HOST` or `HOST:SLOT,SLOT`, joined by `@`. Errors: bad_input for unknown hosts and slots, and if
/// nothing is left.
core::result<std::vector<host_slots>> filter_hosts(std::vector<host_slots> all, const std::string& include,
                                                   const std::string& exclude);

}  // namespace troupe::apps
