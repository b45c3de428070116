// Signals for a program that trains, by the meanings of core/signal_table.hpp: one that ends the run finishes the step
// in hand, or whatever comes before the first one; a second Ctrl-C or SIGTERM stops now. Owns the thread that waits for
// them; the library never touches signals.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

namespace troupe::apps {

class interrupts {
 public:
  enum class save_requests : uint8_t { ignored, taken };  ///< SIGUSR1 and SIGUSR2

  /// Construct before any other thread starts: they inherit the blocked signals. Throws std::runtime_error where the
  /// system refuses the thread that waits for signals.
  /// `same_within_ms`: what interrupts again so soon is the same signal, told twice: a launcher may signal every
  /// process of a job, and its supervisor passes it on as well.
  explicit interrupts(save_requests asked = save_requests::ignored, int same_within_ms = 0);
  ~interrupts();
  interrupts(const interrupts&) = delete;
  interrupts& operator=(const interrupts&) = delete;

  /// From now on there are steps: only said to whoever interrupts.
  void steps_begin() { steps_ = true; }
  [[nodiscard]] bool requested() const { return count_.load() > 0; }
  /// The first of them was not Ctrl-C: something ends the run from outside, and it may be resumed elsewhere.
  [[nodiscard]] bool terminated() const { return terminated_.load(); }
  /// Whether a signal asked for a save since the last call.
  bool take_save_request() { return save_.exchange(false); }
  /// Called on the watching thread at the second signal.
  void on_second(std::function<void()> f);

 private:
  void take(int signal);

  const int64_t same_ns_;
  int64_t last_ns_ = 0;  ///< of the watcher alone
  std::atomic<int> count_{0};
  std::atomic<bool> done_{false}, terminated_{false}, save_{false}, steps_{false};
  std::function<void()> second_;
  std::thread watcher_;
};

}  // namespace troupe::apps
