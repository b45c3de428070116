// DeepSpeed's hostfiles, `HOST slots=N` or `USER@HOST slots=N` a line, and its filters over them. Owns their reading;
// who is started there is launch_command.hpp's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::apps {

struct host_slots {
  std::string name{};
  std::string user{};             ///< by whom it is reached; empty: as ssh's configuration says
  std::vector<uint32_t> slots{};  ///< their numbers; a rank each
  bool is_whole = true;           ///< no filter has taken any

  /// The destination for ssh.
  [[nodiscard]] std::string destination() const { return user.empty() ? name : user + "@" + name; }
};

inline constexpr uint32_t slots_max = 65'536;  ///< of a host

/// In the order of the file; `name` is shown in errors. Errors: bad_input, for lines of another form, hosts that come
/// twice, no slots, and a file without hosts.
core::result<std::vector<host_slots>> read_hostfile(std::string_view text, const std::string& name);

/// `HOST`, or `HOST:SLOT,SLOT`, joined by `@`: what to keep, or what to leave out; one of the two at most. Errors:
/// bad_input, for hosts and slots that are not there, and where nothing is left.
core::result<std::vector<host_slots>> filter_hosts(std::vector<host_slots> all, const std::string& include,
                                                   const std::string& exclude);

}  // namespace troupe::apps
