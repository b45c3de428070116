// Owns the programs that `troupe launch` has started, one on each host: their process ids and pipes, their output, the
// signals that are forwarded to them, and their exit codes.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace troupe::apps {

class launched_hosts {
 public:
  launched_hosts() = default;
  /// Kills the programs of hosts that are still running.
  ~launched_hosts();
  launched_hosts(const launched_hosts&) = delete;
  launched_hosts& operator=(const launched_hosts&) = delete;

  /// Starts the program of one host. The first host leads, and its program inherits the launcher's output; lines of
  /// other hosts are printed after the host's name. Errors: limit.
  core::result<void> start(const std::string& host, const std::vector<std::string>& command);
  /// Waits until all processes have ended, and forwards the signals of the signalfd `signals` to the program of the
  /// first host. Returns the exit code of that program, or that of a host which failed earlier.
  int run(int signals);

 private:
  struct host {
    std::string name;
    pid_t pid = 0;
    int in = -1, out = -1;
    bool is_there = false;  ///< true once the program on the host has reported that it runs
    std::string said, last;
    std::optional<int> code;
    std::optional<int64_t> killed_ns;  ///< time at which a signal ended the host's process; reset once reported
  };
  void listen(host& h);
  void line(host& h, const std::string& text);
  void reap();
  void ended(host& h);
  void tell_killed(int64_t now_ns);
  void give_up(int code);
  static void close(int& descriptor);

  std::vector<host> all_;
  /// Exit code of a host that failed earlier than the first host's program, which the launcher then returns; none: no
  /// host has
  std::optional<int> failure_;
  int64_t give_up_ns_ = 0, over_ns_ = 0;
};

}  // namespace troupe::apps
