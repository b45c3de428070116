// Reports the progress of opening a session to the host, and asks the host whether to continue. Owns when the host is
// asked; training_run.cpp does the work.
#pragma once

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "actors/opening/opening_progress.hpp"
#include "core/error.hpp"

namespace troupe::actors {

/// Shortest time between two calls that ask the host whether the opening continues.
inline constexpr std::chrono::milliseconds opening_interval{100};

/// Name of the phase whose duration depends on the length of the text.
inline constexpr const char* reading_phase = "reading the data";

class opening_watch {  ///< reports the progress of one session that is being opened, and ends the opening on request
 public:
  /// Must be constructed on the thread that opens the session.
  explicit opening_watch(opening_hook hook) : hook_(std::move(hook)), opener_(std::this_thread::get_id()) {}
  opening_watch(const opening_watch&) = delete;
  opening_watch& operator=(const opening_watch&) = delete;

  /// Begins the next phase, and asks the host whether to continue, as `go_on` does. Call on the opening thread only.
  /// Errors: stopped.
  core::result<void> begin(std::string phase);
  /// Asks the host whether the opening continues, at most once in opening_interval; other calls cost little. Errors:
  /// stopped.
  core::result<void> go_on(double share = -1);
  [[nodiscard]] bool stopped() const { return stopped_.load(std::memory_order_relaxed); }
  /// True if the embedding program wants the opening to end. Thread-safe: on the opening thread, also asks the program;
  /// on other threads, only returns the latest answer.
  [[nodiscard]] bool wants_end() {
    if (std::this_thread::get_id() == opener_) (void)go_on(share_.load());
    return stopped();
  }
  [[nodiscard]] core::error why() const;

  /// Waits for work of the opening that runs on another thread, and meanwhile asks the host whether to continue. The
  /// work must poll `wants_end`.
  template <class T>
  void wait(const std::future<T>& of) {
    while (of.wait_for(opening_interval) == std::future_status::timeout) (void)go_on(share_.load());
  }
  /// Sets the share of the current phase that is done, between 0 and 1. Thread-safe.
  void share(double of_phase) { share_.store(of_phase, std::memory_order_relaxed); }

 private:
  core::result<void> ask(double share);

  opening_hook hook_;
  std::thread::id opener_;
  std::string phase_;
  std::atomic<double> share_{-1};
  std::atomic<bool> stopped_{false};
  int64_t next_ns_ = 0;
};

}  // namespace troupe::actors
