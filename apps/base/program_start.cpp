#include "apps/base/program_start.hpp"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "apps/base/descriptors.hpp"
#include "apps/base/last_catch.hpp"
#include "apps/base/output_check.hpp"

namespace troupe::apps {
namespace {

constexpr rlim_t usual_stack_bytes = rlim_t{8} << 20U;

/// Raises the stack limit to the usual size if it is smaller; prints an error and returns false if the result is too
/// small. Threads get the usual size, too, because the C library has already read their size from the old limit.
bool has_enough_stack() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0) return true;
  if (limit.rlim_cur < usual_stack_bytes) {
    limit.rlim_cur = std::min(limit.rlim_max, usual_stack_bytes);
    (void)::setrlimit(RLIMIT_STACK, &limit);
    pthread_attr_t threads;
    if (::pthread_attr_init(&threads) == 0) {
      (void)::pthread_attr_setstacksize(&threads, usual_stack_bytes);
      (void)::pthread_setattr_default_np(&threads);
      ::pthread_attr_destroy(&threads);
    }
  }
  if (limit.rlim_cur >= stack_bytes_min) return true;
  std::fprintf(stderr, "troupe: error: stack: wanted a limit of at least %lu KiB, got %lu KiB: ulimit -s 8192\n",
               stack_bytes_min >> 10U, static_cast<unsigned long>(limit.rlim_cur) >> 10U);
  return false;
}

}  // namespace

int start_program(const std::function<int()>& run) {
  std::signal(SIGCHLD, SIG_DFL);  // the exit code of a child is lost while SIGCHLD is ignored
  open_missing_descriptors();
  if (!has_enough_stack()) return 1;
  if (const auto code = serve_as_first_process(::getpid())) return *code;
  return with_output_checked(with_last_catch(run));
}

std::optional<int> serve_as_first_process(pid_t own) {
  if (own != 1) return std::nullopt;
  sigset_t all, before;
  sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t child = ::fork();
  if (child <= 0) {  // the child, or this process if fork failed, runs the program
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    return std::nullopt;
  }
  for (;;) {
    siginfo_t info{};
    const int number = ::sigwaitinfo(&all, &info);
    int status = 0;
    for (pid_t gone = 0; (gone = ::waitpid(-1, &status, WNOHANG)) > 0;)
      if (gone == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    const bool is_from_terminal = info.si_code > 0;  // the kernel sends a terminal's signal to the child, too
    if (number > 0 && number != SIGCHLD && !is_from_terminal) ::kill(child, number);
  }
}

}  // namespace troupe::apps
