// Owns an actor system that runs only when a test calls run() or pass(). It delivers messages in the order of sending,
// and its clock moves only when a test moves it.
#pragma once

#include <caf/scheduler/test_coordinator.hpp>
#include <chrono>

#include "actors/messages.hpp"

namespace troupe::actors {

class one_thread {
 public:
  ~one_thread() {
    for (const auto& a : owned_) caf::anon_send_exit(a, caf::exit_reason::kill);
    owned_.clear();
    run();
    scheduler().clock().cancel_all();
  }
  template <class... Ts>
  auto spawn(Ts&&... xs) {
    auto out = system_.spawn(std::forward<Ts>(xs)...);
    owned_.push_back(caf::actor_cast<caf::actor>(out));
    return out;
  }
  /// Delivers messages until all mailboxes are empty; fires no timer.
  void run() {
    while (scheduler().try_run_once()) {
    }
  }
  /// Advances the clock by `time`, event by event: all events that are due at one time are processed before the clock
  /// advances.
  void pass(std::chrono::nanoseconds time) {
    auto& clock = scheduler().clock();
    const auto until = clock.now() + time;
    for (run(); !clock.schedule().empty() && clock.schedule().begin()->first <= until; run()) clock.trigger_timeout();
    clock.current_time = until;
  }
  /// Advances the clock by `time` at once, as a process that was stopped observes it.
  void stop(std::chrono::nanoseconds time) {
    scheduler().clock().current_time += time;
    pass(std::chrono::nanoseconds(0));
  }
  size_t timers() { return scheduler().clock().schedule().size(); }  ///< number of pending timers
  caf::actor_system& system() { return system_; }

 private:
  struct config : caf::actor_system_config {
    config() {
      add_message_types<caf::id_block::troupe>();
      set("scheduler.policy", caf::atom("testing"));
    }
  };
  caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system_.scheduler());
  }

  config config_;
  caf::actor_system system_{config_};
  std::vector<caf::actor> owned_;
};

}  // namespace troupe::actors
