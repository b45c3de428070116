// Owns the processes of a job that run on this machine, with their process ids and links: starts each with one end of a
// link, kills and reaps them. Leaves the decision which processes start, and the meaning of messages, to launch.hpp and
// agent.hpp.
#pragma once

#include <poll.h>
#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cluster/link.hpp"

namespace troupe::cluster {

struct children_setup {  ///< how a machine starts its processes of the job
  /// Path of the program that every process runs; the process finds its link as in process.hpp.
  std::filesystem::path program;
  std::vector<std::string> arguments;  ///< arguments of every process; the first is the program's name
  uint32_t places = 0;                 ///< number of processes in the whole job
};

/// Returns, for a sentence about a silent process, that the machine has far more threads that want to run (`load`) than
/// cores; empty if it has not, or if `cores` is 0, unknown.
std::string crowd_text(double load, uint32_t cores);

class children {
 public:
  using received = std::function<void(uint32_t place, parcel p)>;
  using ended = std::function<void(uint32_t place, const std::string& how)>;

  /// Creates the owner of no processes yet. The callbacks run on the calling thread: both in `listen`, and `on_ended`
  /// in `send`, too.
  children(children_setup setup, received on_received, ended on_ended);
  /// Kills the processes that are still running.
  ~children();
  children(const children&) = delete;
  children& operator=(const children&) = delete;

  /// Starts the process with number `place`. Errors: limit, if the system refuses a process or a link, or a killed
  /// process with this number has not ended yet.
  core::result<void> start(uint32_t place);
  /// Kills the process with number `place`, without a callback; the process writes nothing afterwards. Waits at most
  /// 0.2 s for its end: a process that has not ended then is reaped later, and none with its number starts before.
  void kill(uint32_t place);
  void kill_all();
  /// Sends a parcel to the process with number `place`. A process that does not read counts as ended; one that has gone
  /// is reported by the next `listen`.
  void send(uint32_t place, parcel p);
  void pass_signal(uint32_t place, int number) const;
  /// Called when the job is over: processes whose links end after this call are not killed, but may take time to end.
  void let_end() { may_end_ = true; }

  [[nodiscard]] bool has(uint32_t place) const { return all_[place].pid > 0; }
  [[nodiscard]] bool is_empty() const;
  /// Returns the state of a silent process according to the system, such as ": it is stopped"; may be empty.
  [[nodiscard]] std::string condition_of(uint32_t place) const;

  /// Appends the descriptors that `listen` waits for.
  void add_to(std::vector<pollfd>& on) const;
  /// Handles received messages, sends waiting ones, and reaps ended processes. Never blocks on a link. `on`: the result
  /// of poll(); the entries of add_to() begin at `first`.
  void listen(const std::vector<pollfd>& on, size_t first);

 private:
  struct child {
    pid_t pid = 0;
    bool leaves = false;  ///< true: the process has announced that it leaves the job
    std::unique_ptr<socket_link> end;
  };
  void hear(uint32_t place);
  void end_of_link(uint32_t place, const std::string& how);
  void reap();

  children_setup setup_;
  received received_;
  ended ended_;
  std::vector<child> all_;
  std::vector<std::pair<uint32_t, pid_t>> dying_;  ///< numbers and system ids of killed processes that have not ended
  bool may_end_ = false;
};

}  // namespace troupe::cluster
