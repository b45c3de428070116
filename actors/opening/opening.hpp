// Reports the progress of opening a session to the host (the program that embeds Troupe), and asks it whether to
// continue. Owns at what times it is asked; training_run.cpp opens the session.
#pragma once

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "actors/opening/opening_progress.hpp"
#include "core/error.hpp"

namespace troupe::actors {

/// Least time between two calls of the host program's function that decides whether the opening of a session
/// continues.
inline constexpr std::chrono::milliseconds opening_interval{100};

/// Name of the phase whose duration depends on the length of the text.
inline constexpr const char* reading_phase = "reading the data";

class opening_watch {  ///< reports the progress of one session that is being opened, and ends the opening on request
 public:
  /// Must be constructed on the thread that opens the session.
  explicit opening_watch(opening_hook hook) : hook_(std::move(hook)), opener_(std::this_thread::get_id()) {}
  opening_watch(const opening_watch&) = delete;
  opening_watch& operator=(const opening_watch&) = delete;

  /// Begins phase `phase` of the opening, and asks the host program at once whether to continue. Call on the
  /// opening thread only. Errors: stopped.
  core::result<void> begin(std::string phase);
  /// Asks the host program whether the opening continues, unless it was asked less than opening_interval ago.
  /// `share`: fraction of the phase that is done, from 0 to 1; negative: unknown. Errors: stopped.
  core::result<void> go_on(double share = -1);
  [[nodiscard]] bool stopped() const { return stopped_.load(std::memory_order_relaxed); }
  /// True if the host program wants the opening to end. Thread-safe: on the opening thread, also asks the program,
  /// as go_on() does; on other threads, only returns its latest answer.
  [[nodiscard]] bool wants_end() {
    if (std::this_thread::get_id() == opener_) (void)go_on(share_.load());
    return stopped();
  }
  [[nodiscard]] core::error why() const;

  /// Waits until `of`, work of the opening on another thread, is finished, and meanwhile asks the host program
  /// whether to continue. That work must poll wants_end(), which is how it learns that it must stop.
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
