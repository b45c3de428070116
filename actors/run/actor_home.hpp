// Owns the actor system in which the actors of a run live, from the end of the opening to the end of the session, and
// the objects by which the caller's threads reach the actors of the current term (the time in which ranks and processes
// stay the same).
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "actors/company.hpp"
#include "actors/opening/own_system.hpp"
#include "actors/silence.hpp"

namespace troupe::actors {

/// Passes a request to stop the run on to the supervisor of the current term (time with the same processes), and to
/// those of later terms. Thread-safe.
class stop_line {
 public:
  /// Sets the current supervisor, and sends it the latest request if there was one. Null: there is no supervisor now.
  void connect(supervisor_actor to) {
    const std::lock_guard lock(mutex_);
    to_ = std::move(to);
    if (to_ && asked_) post(to_, *asked_);
  }
  void ask(const std::string& why) {
    const std::lock_guard lock(mutex_);
    asked_ = give_up{core::error_kind::stopped, why};
    if (to_) post(to_, *asked_);
  }

 private:
  std::mutex mutex_;
  supervisor_actor to_;
  std::optional<give_up> asked_;
};

/// Holds the current term's board, from which the current instructions of ranks can be read. Thread-safe.
class shown_pulses {
 public:
  void show(std::shared_ptr<pulse_board> board) {
    const std::lock_guard lock(mutex_);
    board_ = std::move(board);
  }
  [[nodiscard]] std::shared_ptr<pulse_board> board() const {
    const std::lock_guard lock(mutex_);
    return board_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<pulse_board> board_;
};

struct actor_home {
  std::unique_ptr<own_system> own;  ///< actor system made by the session; null: the program provided `system`
  caf::actor_system* system = nullptr;
  stop_line stops;
  shown_pulses pulses;
  telemetry_actor telemetry;  ///< the telemetry actor, the same for the whole session
};

}  // namespace troupe::actors
