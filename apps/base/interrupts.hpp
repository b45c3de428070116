// Owns the signals of a program that trains, with the meanings of signal_table.hpp, and the thread that waits for
// them. A signal that ends the run lets the current step, or the work before the first step, finish; a second Ctrl-C or
// SIGTERM stops at once. The library never touches signals.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

namespace troupe::apps {

class interrupts {
 public:
  /// selects whether the signals SIGUSR1 and SIGUSR2 request a checkpoint
  enum class save_requests : uint8_t { ignored, taken };

  /// Blocks the signals and starts the thread that waits for them. Construct it before any other thread starts, since
  /// threads inherit the blocked signals. Throws std::runtime_error if the system refuses the thread. An interruption
  /// within `same_request_ns_max` of the previous one is ignored as a duplicate.
  explicit interrupts(save_requests asked = save_requests::ignored);
  ~interrupts();
  interrupts(const interrupts&) = delete;
  interrupts& operator=(const interrupts&) = delete;

  /// Forwards, from this call on, each signal that another process than the parent has sent to the parent process,
  /// which sends it to the process of the job that handles signals. Must be called in a process that a supervisor or an
  /// agent has started.
  void pass_to_parent();
  /// Notes that steps have begun, which only changes the message for an interruption.
  void steps_begin() { steps_ = true; }
  [[nodiscard]] bool requested() const { return count_.load() > 0; }
  /// True if the first signal was not SIGINT (Ctrl-C), such as SIGTERM from a batch system: the run may then be resumed
  /// elsewhere.
  [[nodiscard]] bool terminated() const { return terminated_.load(); }
  /// True if a signal has requested a save since the last call.
  bool take_save_request() { return save_.exchange(false); }
  /// Sets the function that the watching thread calls at the second signal.
  void on_second(std::function<void()> f);

 private:
  void take(int signal);
  /// Forwards a signal that process `sender` has sent, if pass_to_parent() was called and `sender` is not the parent.
  /// Returns true if the signal was forwarded.
  [[nodiscard]] bool passes_on(int signal, pid_t sender) const;

  int64_t last_ns_ = 0;  ///< time of the last interrupt; used only by the watching thread
  std::atomic<int> count_{0};
  std::atomic<bool> done_{false}, terminated_{false}, save_{false}, steps_{false};
  std::atomic<pid_t> parent_{0};  ///< id of the process to which signals are forwarded; 0: signals are not forwarded
  std::function<void()> second_;
  std::thread watcher_;
};

}  // namespace troupe::apps
