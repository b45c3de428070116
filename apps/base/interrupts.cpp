#include "apps/base/interrupts.hpp"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <system_error>

#include "apps/base/exit_code.hpp"
#include "apps/base/signals.hpp"
#include "core/clock.hpp"

namespace troupe::apps {
namespace {
std::mutex mutex;
// Seconds that a run may take to stop after the second signal before the process exits.
constexpr unsigned grace_s = 5;
}  // namespace

interrupts::interrupts(save_requests asked) {
  ignore_unused_signals();
  sigset_t set = signals_that_end();
  if (asked == save_requests::taken) {
    set = signals_that_end_or_save();
  } else {
    for (const auto& s : core::signal_table)
      if (s.effect == core::signal_effect::saves) std::signal(s.number, SIG_IGN);
  }
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  try {
    watcher_ = std::thread([this, set] {
      for (siginfo_t info{};;) {
        const int signal = ::sigwaitinfo(&set, &info);
        if (done_.load() || (signal < 0 && errno != EINTR)) return;
        if (signal > 0 && !passes_on(signal, info.si_pid)) take(signal);
      }
    });
  } catch (const std::system_error& e) {
    throw std::runtime_error("threads: wanted one that waits for signals, but the system refused it: " +
                             e.code().message() + " (the user's limit, ulimit -u, or that of the container)");
  }
}

void interrupts::pass_to_parent() { parent_ = ::getppid(); }

bool interrupts::passes_on(int signal, pid_t sender) const {
  const pid_t parent = parent_.load();
  return parent != 0 && sender != parent && ::getppid() == parent && ::kill(parent, signal) == 0;
}

void interrupts::take(int signal) {
  if (core::asks_for_save(signal)) {
    save_ = true;
    std::fprintf(stderr, "troupe: SIG%s: a checkpoint follows this step\n", ::sigabbrev_np(signal));
    return;
  }
  if (count_.load() > 0 && !core::hurries(signal)) return;
  const int64_t now = core::now_ns();
  if (count_.load() > 0 && now - last_ns_ < same_request_ns_max) return;
  last_ns_ = now;
  if (count_.load() == 0) {
    asked_by_signal = signal;
    terminated_ = signal != SIGINT;
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

interrupts::~interrupts() {
  done_ = true;
  // the watcher always waits for SIGTERM, also if other signals are ignored
  pthread_kill(watcher_.native_handle(), SIGTERM);
  watcher_.join();
}

void interrupts::on_second(std::function<void()> f) {
  const std::lock_guard lock(mutex);
  second_ = std::move(f);
}

}  // namespace troupe::apps
