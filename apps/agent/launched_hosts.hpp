// The programs that `troupe launch` has started, one on each host: what they say, which signals they get, how they end.
// Owns their process ids and pipes.
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
  /// Kills what is left.
  ~launched_hosts();
  launched_hosts(const launched_hosts&) = delete;
  launched_hosts& operator=(const launched_hosts&) = delete;

  /// The first one leads: its output is this program's. What others say stands behind their host's name. Errors: limit.
  core::result<void> start(const std::string& host, const std::vector<std::string>& command);
  /// Until all have ended. `signals`: a signalfd; what comes goes to the one that leads. Gives the exit code.
  int run(int signals);

 private:
  struct host {
    std::string name;
    pid_t pid = 0;
    int in = -1, out = -1;
    bool is_there = false;  ///< has been reached
    std::string said, last;
    std::optional<int> code;
    std::optional<int64_t> killed_ns;  ///< ended as by a signal, which has not been told yet
  };
  void listen(host& h);
  void line(host& h, const std::string& text);
  void reap();
  void ended(host& h);
  void tell_killed(int64_t now_ns);
  void give_up(int code);
  static void close(int& descriptor);

  std::vector<host> all_;
  std::optional<int> failure_;  ///< instead of the leader's code
  int64_t give_up_ns_ = 0, over_ns_ = 0;
};

}  // namespace troupe::apps
