// Starts the process that chooses the open degrees of a job, and reads the degrees from it.
#include "apps/run/degrees_first.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "apps/base/exit_code.hpp"

namespace troupe::apps {
namespace {

/// Reads from descriptor `from` until the writing end is closed, and returns the text.
std::string read_all(int from) {
  std::string out;
  char block[4096];
  for (;;) {
    const ssize_t n = ::read(from, block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return out;
    out.append(block, static_cast<size_t>(n));
  }
}

int code_of(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return 1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

std::variant<std::vector<std::string>, int> choose_degrees_first(const std::filesystem::path& program,
                                                                 const std::vector<std::string>& arguments) {
  const auto cannot = [&](const char* what) {
    return failed({core::error_kind::io, std::string("parallel: auto: cannot ") + what + " " + program.string() + ": " +
                                             std::strerror(errno)});
  };
  int ends[2] = {-1, -1};
  if (::pipe(ends) != 0) return cannot("make a pipe to");
  std::vector<char*> argv;
  for (const auto& x : arguments) argv.push_back(const_cast<char*>(x.c_str()));
  argv.push_back(nullptr);
  std::fflush(stdout);
  const pid_t self = ::getpid(), child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != self) ::_exit(1);
    ::close(ends[0]);
    ::setenv(degrees_variable, fmt::to_string(ends[1]).c_str(), 1);
    ::execv(program.c_str(), argv.data());
    ::_exit(cannot("execute"));
  }
  ::close(ends[1]);
  if (child < 0) {
    ::close(ends[0]);
    return cannot("start");
  }
  const std::string told = read_all(ends[0]);
  ::close(ends[0]);
  if (const int code = code_of(child); code != 0 || told.empty()) return code == 0 ? 1 : code;
  std::vector<std::string> out;
  for (size_t at = 0, end = 0; (end = told.find('\n', at)) != std::string::npos; at = end + 1)
    out.push_back(told.substr(at, end - at));
  return out;
}

}  // namespace troupe::apps
