// Identifies the process that holds a lock: its process number and the name of its machine are stored in the locked
// file. Owns this text, its parsing, and the meaning of a failed lock call; the callers own the file and its lock.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <string_view>

#include "core/number.hpp"

namespace troupe::core {

/// Returns the name of this machine; empty if it has none.
inline std::string host_name() {
  std::array<char, 256> text{};
  return ::gethostname(text.data(), text.size() - 1) == 0 ? std::string(text.data()) : std::string();
}

/// True if `number` is an errno by which flock(2) reports that the file system has no locks, as some network file
/// systems do.
inline bool is_without_locks(int number) { return number == ENOSYS || number == ENOLCK || number == EOPNOTSUPP; }

/// Writes the number of this process and the name of its machine into the locked file `fd`. The text is for messages
/// only, so a failed write (a full disk) is ignored.
inline void write_lock_holder(int fd) {
  const std::string text = fmt::format("{} {}\n", ::getpid(), host_name());
  if (::ftruncate(fd, 0) == 0) (void)!::pwrite(fd, text.data(), text.size(), 0);
}

/// Returns, for messages, the process that holds the lock on the file `fd`: `process 1234`; `process 1234 on node7` if
/// it is on another machine; `this process`; or `another process` if it has not written its number yet.
inline std::string lock_holder(int fd) {
  std::array<char, 300> text{};
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  std::string_view host(text.data(), n > 0 ? static_cast<size_t>(n) : 0);
  const auto number = take_number<pid_t>(host);
  if (!number || *number <= 0) return "another process";
  host = host.substr(0, host.find('\n'));
  if (host.starts_with(' ')) host.remove_prefix(1);
  const bool is_here = host.empty() || host == host_name();
  if (is_here && *number == ::getpid()) return "this process";
  return fmt::format("process {}{}", *number, is_here ? std::string() : " on " + std::string(host));
}

}  // namespace troupe::core
