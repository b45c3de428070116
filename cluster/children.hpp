// The processes of a job that run on this machine: starts them with the end of a link each, kills and reaps them. Owns
// their process ids and links; who is started and what is said is the business of launch.hpp and agent.hpp.
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

struct children_setup {                ///< of one machine
  std::filesystem::path program;       ///< of every process; it finds its link as process.hpp says
  std::vector<std::string> arguments;  ///< the first is the program's name
  uint32_t places = 0;                 ///< of the whole job
};

class children {
 public:
  using heard = std::function<void(uint32_t place, parcel p)>;
  using ended = std::function<void(uint32_t place, const std::string& how)>;

  /// Both are called by `listen` and by `send`, on the calling thread.
  children(children_setup setup, heard on_heard, ended on_ended);
  /// Kills those that are left.
  ~children();
  children(const children&) = delete;
  children& operator=(const children&) = delete;

  /// Errors: limit, where the system refuses a process or a link.
  core::result<void> start(uint32_t place);
  /// Nothing that it computes is written afterwards. Says nothing. Waits for its end, but not long: one that the system
  /// holds is reaped later, and nobody starts in its place before.
  void kill(uint32_t place);
  void kill_all();
  void send(uint32_t place, parcel p);
  void pass_signal(uint32_t place, int number) const;
  /// From now on processes that close their links may take their time.
  void let_end() { may_end_ = true; }

  [[nodiscard]] bool has(uint32_t place) const { return all_[place].pid > 0; }
  [[nodiscard]] bool is_empty() const;
  /// What the system says of a process that is silent, as in ": it is stopped"; may be empty.
  [[nodiscard]] std::string condition_of(uint32_t place) const;

  /// Appends what `listen` waits for.
  void add_to(std::vector<pollfd>& on) const;
  /// Hears what has come, sends what waited, reaps. Waits for nothing. `on`: what poll() said; from `first` on is what
  /// add_to() appended.
  void listen(const std::vector<pollfd>& on, size_t first);

 private:
  struct child {
    pid_t pid = 0;
    bool leaves = false;  ///< has said so
    std::unique_ptr<socket_link> end;
  };
  void hear(uint32_t place);
  void end_of_link(uint32_t place, const std::string& how);
  void reap();

  children_setup setup_;
  heard heard_;
  ended ended_;
  std::vector<child> all_;
  std::vector<std::pair<uint32_t, pid_t>> dying_;  ///< places and processes that were killed and have not ended
  bool may_end_ = false;
};

}  // namespace troupe::cluster
