// Owns a child process of `troupe tune`: starts it apart from the terminal's signals, reads its output, sums its
// memory, and ends it together with the processes that it has started. Decides nothing about when.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::apps {

class child_process {
 public:
  /// Executes the program `command[0]`, without input. Returns limit if the system refuses a process; a program that
  /// cannot be executed ends with code 127.
  static core::result<std::unique_ptr<child_process>> start(const std::vector<std::string>& command);
  /// Kills the program if it has not ended.
  ~child_process();
  child_process(const child_process&) = delete;
  child_process& operator=(const child_process&) = delete;

  /// Function that receives a line of standard output, without its end.
  using line_function = std::function<void(std::string_view)>;

  /// Reads output that arrives within `wait_ms` milliseconds, and passes whole lines to `line`. Returns true if some
  /// was read.
  bool listen(int wait_ms, const line_function& line);
  /// Returns the exit code if the program has ended: 128 + the number if a signal ended it.
  std::optional<int> ended();
  /// Asks the program to end, as a batch system does (SIGTERM).
  void ask_to_end() const;
  /// Kills the program and all processes that it has started.
  void kill() const;
  /// Asks the program to end, kills it if it has not ended after `grace_s` seconds, and kills what it leaves behind.
  void end(double grace_s);

  /// Returns the bytes of memory that belong to the program and to the processes that it has started: without pages of
  /// files, and shared memory once.
  [[nodiscard]] uint64_t memory_bytes() const;
  /// Returns the last line that the program has written to standard error; empty if there is none.
  [[nodiscard]] std::string last_error() const;

 private:
  child_process(pid_t pid, int out, int err) : pid_(pid), out_(out), err_(err) {}

  pid_t pid_;
  int out_, err_;
  std::optional<int> code_;
  std::string line_;    ///< beginning of a line of standard output whose end was not read yet
  std::string errors_;  ///< end of standard error
};

/// Returns the sum of private memory and the largest shared memory in texts of /proc/PID/status, in bytes.
uint64_t memory_in(const std::vector<std::string>& statuses);

}  // namespace troupe::apps
