#include "apps/base/signals.hpp"

#include <pthread.h>

namespace troupe::apps {
namespace {

bool has_disposition(int number, void (*disposition)(int)) {
  struct sigaction now {};
  return ::sigaction(number, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == disposition;
}

sigset_t set_of(auto fits) {
  sigset_t out;
  sigemptyset(&out);
  for (const auto& s : core::signal_table)
    if (fits(s.effect) && !is_left_ignored(s.number)) sigaddset(&out, s.number);
  return out;
}

}  // namespace

bool is_left_ignored(int number) { return number != SIGINT && number != SIGTERM && has_disposition(number, SIG_IGN); }

void ignore_unused_signals() {
  const auto ignore = [](int number) {
    if (has_disposition(number, SIG_DFL)) std::signal(number, SIG_IGN);
  };
  for (const auto& s : core::signal_table)
    if (s.effect == core::signal_effect::ignored) ignore(s.number);
  for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) ignore(number);
}

sigset_t signals_that_end() {
  return set_of([](core::signal_effect e) { return e == core::signal_effect::ends; });
}
sigset_t signals_that_end_or_save() {
  return set_of([](core::signal_effect e) { return e != core::signal_effect::ignored; });
}

void hold_save_signals() {
  const sigset_t saves = set_of([](core::signal_effect e) { return e == core::signal_effect::saves; });
  ::pthread_sigmask(SIG_BLOCK, &saves, nullptr);
}

}  // namespace troupe::apps
