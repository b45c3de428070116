#include "apps/launch/remote.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "core/system/signal_table.hpp"

namespace troupe::apps {

std::string quoted_word(const std::string& word) {
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out + "'";
}

std::string shell_line(const remote_program& p) {
  std::string out = "cd " + quoted_word(p.folder) + " && exec env";
  for (const auto& [name, value] : p.variables) out += " " + quoted_word(name + "=" + value);
  for (const auto& word : p.command) out += " " + quoted_word(word);
  return out;
}

std::vector<std::string> ssh_command(const std::string& host, const remote_program& p, const ssh_options& o) {
  std::vector<std::string> out{"ssh", "-T"};
  for (const auto& x : o.further) out.insert(out.end(), {"-o", x});
  for (const std::string& x : {std::string("BatchMode=yes"), fmt::format("ConnectTimeout={}", ssh_connect_s),
                               std::string("ServerAliveInterval=5"), std::string("ServerAliveCountMax=3")})
    out.insert(out.end(), {"-o", x});
  if (o.port != 0) out.insert(out.end(), {"-p", fmt::format("{}", o.port)});
  out.insert(out.end(), {"--", host, shell_line(p)});
  return out;
}

int hold(int argc, char** argv) {
  bool tells = false, leads = false;
  int first = 2;
  for (; first < argc && argv[first][0] == '-'; ++first) {
    tells = tells || std::strcmp(argv[first], "--tell") == 0;
    leads = leads || std::strcmp(argv[first], "--leads") == 0;
  }
  if (first >= argc) {
    std::fprintf(stderr, "troupe: error: hold: wanted a program, got none\n");
    return 2;
  }
  // Writes of the program fail with an error, instead of a signal that ends it, once the connection has ended
  std::signal(SIGPIPE, SIG_IGN);
  // The launcher takes earlier lines for output of ssh and does not show them, so the program starts after this line
  if (tells) {
    std::printf("%s\n", hold_is_there);
    std::fflush(stdout);
  }
  const pid_t parent = ::getpid(), child = ::fork();
  if (child == 0) {
    // The end of this holder has the effect of the end of its input: SIGTERM would end the whole job
    ::prctl(PR_SET_PDEATHSIG, leads ? SIGTERM : SIGHUP);
    if (::getppid() != parent) ::_exit(1);
    // Restores the default action, because SIGHUP tells the program that the connection has ended
    std::signal(SIGHUP, SIG_DFL);
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::dup2(nothing, STDIN_FILENO);
    ::execv(argv[first], argv + first);
    std::fprintf(stderr, "troupe: error: cannot execute %s: %s\n", argv[first], std::strerror(errno));
    ::_exit(127);
  }
  if (child < 0) {
    std::fprintf(stderr, "troupe: error: cannot start a process: %s\n", std::strerror(errno));
    return 1;
  }
  // Ignores signals of the terminal or ssh, because the launcher sends signals through stdin
  for (const auto& s : core::signal_table) std::signal(s.number, SIG_IGN);
  const auto ended = static_cast<int>(::syscall(SYS_pidfd_open, child, 0));
  bool hears = true;
  for (;;) {
    pollfd on[] = {{hears ? STDIN_FILENO : -1, POLLIN, 0}, {ended, POLLIN, 0}};
    // Without pidfd_open, poll() cannot wait for the child's end, so the loop checks for it every 200 ms.
    if (::poll(on, 2, ended < 0 ? 200 : -1) < 0 && errno != EINTR) hears = false;
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child)
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (!hears || on[0].revents == 0) continue;
    char signals[64];
    const ssize_t n = ::read(STDIN_FILENO, signals, sizeof signals);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    for (ssize_t i = 0; i < n; ++i)
      if (core::ends_run(signals[i]) || core::asks_for_save(signals[i])) ::kill(child, signals[i]);
    if (n > 0) continue;
    hears = false;
    ::kill(child, leads ? SIGTERM : SIGHUP);
  }
}

}  // namespace troupe::apps
