// The actor system that the actors of a run live in, from the end of the opening to the end of the session, and what
// connects the caller's threads with the actors of the current term.
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

/// Forwards a request to stop to the current supervisor, across terms. Thread-safe.
class stop_line {
 public:
  /// Sets the current supervisor, and sends it the last request if there was one. Null: the job has no supervisor any
  /// more.
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

/// Holds the board that shows the current instructions of ranks, across terms. Thread-safe.
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
  std::unique_ptr<own_system> own;  ///< null: the host's system
  caf::actor_system* system = nullptr;
  stop_line stops;
  shown_pulses pulses;
  telemetry_actor telemetry;  ///< one of the system's actors, from the first term to the end of the session
};

}  // namespace troupe::actors
