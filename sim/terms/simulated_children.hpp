// Simulates the processes of one machine in place of cluster/children.hpp. Owns the processes, their links and their
// faults; leaves to the launcher or the agent which process is started and which messages are sent.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "sim/terms/simulated_process.hpp"

namespace troupe::sim {

class simulated_children {
 public:
  using received = std::function<void(uint32_t place, cluster::parcel p)>;
  using ended = std::function<void(uint32_t place, const std::string& how)>;

  /// `places` is the number of processes in the whole job; `on_received` receives their messages, `on_ended` the reason
  /// of an end.
  simulated_children(surroundings& around, uint32_t places, uint64_t seed, received on_received, ended on_ended)
      : around_(around),
        random_(seed),
        received_(std::move(on_received)),
        ended_(std::move(on_ended)),
        all_(places),
        why_(places) {}
  ~simulated_children() { kill_all(); }
  simulated_children(const simulated_children&) = delete;
  simulated_children& operator=(const simulated_children&) = delete;

  void start(uint32_t place);
  void kill(uint32_t place);
  void kill_all();
  /// Removes all processes without a message, as when the machine loses power.
  void vanish();
  /// Closes the links of all processes, as when the agent that started them was killed.
  void orphan();
  void send(uint32_t place, cluster::parcel p);
  void let_end() { may_end_ = true; }
  [[nodiscard]] bool is_empty() const;
  [[nodiscard]] simulated_process* at(uint32_t place) const { return all_[place].process.get(); }
  /// Returns the error with which the last process of this index ended, or an empty text if it ended without one.
  [[nodiscard]] const std::string& why(uint32_t place) const { return why_[place]; }

  // The next functions inject a fault into one process.
  void end_by_signal(uint32_t place);
  void stop(uint32_t place, int64_t ns);
  void cut_link(uint32_t place);
  void garble_link(uint32_t place);

  /// Receives the messages of all processes, like `children::listen`.
  void listen();
  void run_processes();
  /// Resumes the scripts of all processes until each waits, and removes processes that have ended.
  void go_on();
  /// due_ns() returns the virtual time, in ns, of the next message from a process, processes_due_ns() that of the next
  /// action of a process itself.
  [[nodiscard]] int64_t due_ns() const;
  [[nodiscard]] int64_t processes_due_ns() const;
  [[nodiscard]] uint64_t num_messages() const { return messages_; }
  [[nodiscard]] bool is_executor_struck() const { return struck_; }

 private:
  struct child {
    std::unique_ptr<simulated_process> process;
    std::unique_ptr<cluster::link> end;
    std::shared_ptr<modelled_stream> up, down;
    int64_t starts_ns = INT64_MAX;
    int64_t stopped_until_ns = 0;
    bool is_gone = true;  // true before a process is started and after it has ended
    bool leaves = false;
  };
  void hear(uint32_t place);
  void depart(uint32_t place);
  [[nodiscard]] int64_t now() const { return around_.clock.now_ns(); }

  surroundings& around_;
  std::mt19937_64 random_;
  received received_;
  ended ended_;
  std::vector<child> all_;
  std::vector<std::string> why_;
  uint64_t messages_ = 0;
  bool may_end_ = false, struck_ = false;
};

}  // namespace troupe::sim
