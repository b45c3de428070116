#include "apps/base/stop_request.hpp"

#include <atomic>

#include "apps/base/exit_code.hpp"
#include "apps/base/signals.hpp"
#include "core/clock.hpp"

namespace troupe::apps {
namespace {

volatile std::sig_atomic_t is_stop_asked = 0;
std::atomic<int64_t> asked_at_ns = 0;
static_assert(std::atomic<int64_t>::is_always_lock_free);

// Only functions that a signal handler may call are used here; reading the clock is one of them.
void ask_to_stop(int signal) {
  if (is_stop_asked == 0) {
    asked_by_signal = signal;
    asked_at_ns = core::now_ns();
    is_stop_asked = 1;
  } else if (core::hurries(signal) && core::now_ns() - asked_at_ns.load() >= same_request_ns_max) {
    std::signal(signal, SIG_DFL);
    ::raise(signal);  // delivered when the handler returns
  }
}

}  // namespace

// Installs the handlers; ignores the signals that request a save, because a command has nothing to save before its end.
stop_request::stop_request() {
  is_stop_asked = 0;
  for (size_t i = 0; i < before_.size(); ++i) {
    const auto& s = core::signal_table[i];
    ::sigaction(s.number, nullptr, &before_[i]);
    struct sigaction action {};
    sigemptyset(&action.sa_mask);
    action.sa_handler = s.effect == core::signal_effect::ends ? ask_to_stop : SIG_IGN;
    action.sa_flags = SA_RESTART;
    const bool is_taken = s.effect == core::signal_effect::ignored && before_[i].sa_handler != SIG_DFL;
    if (!is_taken && !is_left_ignored(s.number)) ::sigaction(s.number, &action, nullptr);
  }
}

stop_request::~stop_request() {
  for (size_t i = 0; i < before_.size(); ++i) ::sigaction(core::signal_table[i].number, &before_[i], nullptr);
}

bool stop_request::made() { return is_stop_asked != 0; }

}  // namespace troupe::apps
