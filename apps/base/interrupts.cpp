#include "apps/base/interrupts.hpp"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <system_error>

#include "apps/base/exit_code.hpp"
#include "core/clock.hpp"

namespace troupe::apps {
namespace {
std::mutex mutex;
// How long a run may take to stop after the second signal before the process simply ends.
constexpr unsigned grace_s = 5;
}  // namespace

interrupts::interrupts(save_requests asked, int same_within_ms) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond the user's limit is an error of the write, not the end
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  if (asked == save_requests::taken) sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGUSR2);  // our own: ends the watcher
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  const auto watch = [this, set, same_ns = int64_t{same_within_ms} * 1'000'000] {
    int64_t last_ns = 0;
    for (;;) {
      int signal = 0;
      if (sigwait(&set, &signal) != 0 || done_.load()) return;
      if (signal == SIGUSR2) continue;
      if (signal == SIGUSR1) {
        save_ = true;
        std::fputs("troupe: SIGUSR1: a checkpoint follows this step\n", stderr);
        continue;
      }
      const int64_t now = core::now_ns();
      if (count_.load() > 0 && now - last_ns < same_ns) continue;
      last_ns = now;
      if (signal == SIGTERM && count_.load() == 0) {
        terminated_ = true;
        asked_by_sigterm = 1;
      }
      const int n = ++count_;
      if (n == 1) {
        std::fputs(steps_ ? "troupe: interrupted: the run ends after this step; once more ends it now\n"
                          : "troupe: interrupted: it ends as soon as it can; once more ends it now\n",
                   stderr);
      } else if (n == 2) {
        std::signal(SIGALRM, [](int) { std::_Exit(stopped_code()); });
        ::alarm(grace_s);
        const std::lock_guard lock(mutex);
        if (second_) second_();
      } else {
        std::_Exit(stopped_code());
      }
    }
  };
  try {
    watcher_ = std::thread(watch);
  } catch (const std::system_error& e) {
    throw std::runtime_error("threads: wanted one that waits for signals, the system refused it: " +
                             e.code().message() + " (the user's limit, ulimit -u, or that of the container)");
  }
}

interrupts::~interrupts() {
  done_ = true;
  pthread_kill(watcher_.native_handle(), SIGUSR2);
  watcher_.join();
}

void interrupts::on_second(std::function<void()> f) {
  const std::lock_guard lock(mutex);
  second_ = std::move(f);
}

}  // namespace troupe::apps
