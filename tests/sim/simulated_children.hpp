// The processes of a simulated machine: what cluster/children.hpp is with real ones. Owns them, their links and what
// happens to one; who is started and what is said is the launcher's or the agent's business.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/sim/simulated_process.hpp"

namespace troupe::actors {

class simulated_children {
 public:
  using heard = std::function<void(uint32_t place, cluster::parcel p)>;
  using ended = std::function<void(uint32_t place, const std::string& how)>;

  /// [place] of the whole job.
  simulated_children(surroundings& around, uint32_t places, uint64_t seed, heard on_heard, ended on_ended)
      : around_(around),
        random_(seed),
        heard_(std::move(on_heard)),
        ended_(std::move(on_ended)),
        all_(places),
        why_(places) {}
  ~simulated_children() { kill_all(); }
  simulated_children(const simulated_children&) = delete;
  simulated_children& operator=(const simulated_children&) = delete;

  void start(uint32_t place);
  void kill(uint32_t place);
  void kill_all();
  /// The machine is lost, with all that it has.
  void vanish();
  /// Who started them is gone: they find their links ended.
  void orphan();
  void send(uint32_t place, cluster::parcel p);
  void let_end() { may_end_ = true; }
  [[nodiscard]] bool is_empty() const;
  [[nodiscard]] simulated_process* at(uint32_t place) const { return all_[place].process.get(); }
  /// Why the last one in a place left; empty: in good order.
  [[nodiscard]] const std::string& why(uint32_t place) const { return why_[place]; }

  // What happens to one.
  void end_by_signal(uint32_t place);
  void stop(uint32_t place, int64_t ns);
  void cut_link(uint32_t place);
  void garble_link(uint32_t place);

  /// Hears what has come, as `children::listen`; and the processes hear.
  void listen();
  void run_processes();
  /// Processes go on as far as they can; those that are over are gone.
  void go_on();
  /// When one of these has something to do.
  [[nodiscard]] int64_t due_ns() const;
  [[nodiscard]] int64_t processes_due_ns() const;
  [[nodiscard]] uint64_t num_messages() const { return messages_; }
  [[nodiscard]] bool is_executor_struck() const { return struck_; }

 private:
  struct child {
    std::unique_ptr<simulated_process> process;
    std::unique_ptr<cluster::link> end;
    std::shared_ptr<cluster::modelled_stream> up, down;
    int64_t starts_ns = INT64_MAX;
    int64_t stopped_until_ns = 0;
    bool is_gone = true;  // or was never there
    bool leaves = false;
  };
  void hear(uint32_t place);
  void depart(uint32_t place);
  [[nodiscard]] int64_t now() const { return around_.clock.now_ns(); }

  surroundings& around_;
  std::mt19937_64 random_;
  heard heard_;
  ended ended_;
  std::vector<child> all_;
  std::vector<std::string> why_;
  uint64_t messages_ = 0;
  bool may_end_ = false, struck_ = false;
};

}  // namespace troupe::actors
