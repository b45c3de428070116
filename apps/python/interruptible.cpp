#include "apps/python/interruptible.hpp"

#include <nanobind/nanobind.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <mutex>
#include <thread>

namespace troupe::apps {
namespace {

namespace nb = nanobind;

/// Longest time until Python handles Ctrl-C; the end of the work is noticed at once.
constexpr std::chrono::milliseconds look_every{50};

/// Blocks all signals for the working thread, so that they interrupt the calling thread, which runs Python, and not the
/// work.
class signals_blocked {
 public:
  signals_blocked() {
    sigset_t all;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~signals_blocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  signals_blocked(const signals_blocked&) = delete;
  signals_blocked& operator=(const signals_blocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

void run_interruptibly(const std::function<void(const storage::progress_function&)>& work,
                       const std::function<void()>& on_second) {
  std::atomic<bool> stopped = false;
  std::mutex mutex;
  std::condition_variable ended;
  bool has_ended = false;
  std::exception_ptr thrown;
  std::thread worker;
  {
    const signals_blocked inherited;
    worker = std::thread([&] {
      try {
        work([&](uint64_t, uint64_t) { return !stopped.load(); });
      } catch (...) {
        thrown = std::current_exception();
      }
      const std::lock_guard lock(mutex);
      has_ended = true;
      ended.notify_one();
    });
  }
  std::optional<nb::python_error> raised;
  for (;;) {
    {
      const nb::gil_scoped_release others_run;
      std::unique_lock lock(mutex);
      if (ended.wait_for(lock, look_every, [&] { return has_ended; })) break;
    }
    if (raised && !on_second) continue;
    if (PyErr_CheckSignals() == 0) continue;
    if (raised) {
      PyErr_Clear();
      on_second();
    } else {
      raised.emplace();
      stopped = true;
    }
  }
  worker.join();
  if (raised) throw nb::python_error(*raised);
  if (thrown) std::rethrow_exception(thrown);
}

}  // namespace troupe::apps
