// Who holds a lock: the number of its process, written into the file that is locked. Owns that text and its reading;
// the file and its lock are others'.
#pragma once

#include <unistd.h>

#include <array>
#include <charconv>
#include <string>

namespace troupe::core {

/// Makes this process the holder that the file names. For messages only: a disk too full for it ends nothing.
inline void write_lock_holder(int fd) {
  const std::string text = std::to_string(::getpid()) + "\n";
  if (::ftruncate(fd, 0) == 0) (void)!::pwrite(fd, text.data(), text.size(), 0);
}

/// `process 1234`, `this process`; `another process` where the holder has not written yet.
inline std::string lock_holder(int fd) {
  std::array<char, 20> text{};
  const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
  pid_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + (n > 0 ? n : 0), number);
  if (problem != std::errc() || number <= 0) return "another process";
  return number == ::getpid() ? "this process" : "process " + std::to_string(number);
}

}  // namespace troupe::core
