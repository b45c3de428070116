// Tells the host how far the opening of a session is and asks whether to continue. Owns when the host is asked;
// open.cpp does the work.
#pragma once

#include <atomic>
#include <chrono>
#include <future>
#include <string>
#include <thread>

#include "actors/session/opening_progress.hpp"
#include "core/error.hpp"

namespace troupe::actors {

/// The host is asked no more often than this.
inline constexpr std::chrono::milliseconds opening_interval{100};

/// The phase that takes as long as the text is.
inline constexpr const char* reading_phase = "reading the data";

class opening_watch {  ///< of one session that is being opened
 public:
  /// On the thread that opens.
  explicit opening_watch(opening_hook hook) : hook_(std::move(hook)), opener_(std::this_thread::get_id()) {}
  opening_watch(const opening_watch&) = delete;
  opening_watch& operator=(const opening_watch&) = delete;

  /// The next phase begins. By the thread that opens; here and in `go_on` it asks the host.
  core::result<void> begin(std::string phase);
  /// Cheap: asks when it is time. Errors: stopped.
  core::result<void> go_on(double share = -1);
  [[nodiscard]] bool stopped() const { return stopped_.load(std::memory_order_relaxed); }
  /// From any thread: whether the host wants the opening to end. Threads that work for the opening look here; on the
  /// opening thread it asks the host.
  [[nodiscard]] bool wants_end() {
    if (std::this_thread::get_id() == opener_) (void)go_on(share_.load());
    return stopped();
  }
  [[nodiscard]] core::error why() const;

  /// Waits for a task of the opening, asking the host meanwhile; the task must look at `wants_end`.
  template <class T>
  void wait(const std::future<T>& of) {
    while (of.wait_for(opening_interval) == std::future_status::timeout) (void)go_on(share_.load());
  }
  /// From any thread: how much of the phase is done.
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
