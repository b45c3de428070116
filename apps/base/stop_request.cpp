#include "apps/base/stop_request.hpp"

#include <csignal>
#include <initializer_list>

#include "apps/base/exit_code.hpp"

namespace troupe::apps {
namespace {

volatile std::sig_atomic_t requested = 0;

void install(int flags, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGINT, SIGTERM}) ::sigaction(number, &action, nullptr);
}

}  // namespace

stop_request::stop_request() {
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond the user's limit is an error of the write
  requested = 0;
  install(SA_RESETHAND | SA_RESTART, [](int signal) {
    if (requested == 0 && signal == SIGTERM) asked_by_sigterm = 1;
    requested = 1;
  });
}

stop_request::~stop_request() { install(0, SIG_DFL); }

bool stop_request::made() { return requested != 0; }

}  // namespace troupe::apps
