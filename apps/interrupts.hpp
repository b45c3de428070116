// Ctrl-C for a program that trains: once finishes the step, twice stops now. Owns the process's SIGINT and SIGTERM;
// the library never touches signals.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace troupe::apps {

class interrupts {
 public:
  /// Construct before any other thread starts: they inherit the blocked signals.
  interrupts();
  ~interrupts();
  interrupts(const interrupts&) = delete;
  interrupts& operator=(const interrupts&) = delete;

  [[nodiscard]] bool requested() const { return count_.load() > 0; }
  /// Called on the watching thread at the second signal.
  void on_second(std::function<void()> f);

 private:
  std::atomic<int> count_{0};
  std::atomic<bool> done_{false};
  std::function<void()> second_;
  std::thread watcher_;
};

}  // namespace troupe::apps
