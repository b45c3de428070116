#include "apps/agent/launched_hosts.hpp"

#include <fcntl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>

#include "apps/base/error_line.hpp"
#include "apps/launch/remote.hpp"
#include "core/clock.hpp"
#include "core/system_error.hpp"

namespace troupe::apps {
namespace {

/// Exit code of ssh if the connection failed or has ended; other exit codes come from the remote program.
constexpr int no_connection = 255;
/// Exit codes above this value mean that a signal has ended the remote program.
constexpr int killed = 128;
/// Nanoseconds between the failure of one host's program and the reaction to it. The failure may only be a consequence
/// of the job's end: it was one if the program of the first host, which leads the job, exits within this time.
constexpr int64_t say_ns_max = 3'000'000'000;
/// Nanoseconds after the end of the first host's program, which leads the job, after which the programs of the other
/// hosts are terminated.
constexpr int64_t ending_ns_max = 10'000'000'000;
constexpr size_t line_bytes_max = 4096;

}  // namespace

launched_hosts::~launched_hosts() {
  for (auto& h : all_) {
    close(h.in);
    if (h.pid > 0 && !h.code) {
      ::kill(-h.pid, SIGKILL);
      ::waitpid(h.pid, nullptr, 0);
    }
    close(h.out);
  }
}

void launched_hosts::close(int& descriptor) {
  if (descriptor >= 0) ::close(descriptor);
  descriptor = -1;
}

core::result<void> launched_hosts::start(const std::string& name, const std::vector<std::string>& command) {
  const bool leads = all_.empty();
  const auto refused = [&] {
    return core::fail(core::error_kind::limit, name + ": cannot start a process: " + core::system_message(errno));
  };
  std::array<int, 2> in{-1, -1}, out{-1, -1};
  if (::pipe2(in.data(), O_CLOEXEC) != 0) return refused();
  if (!leads && ::pipe2(out.data(), O_CLOEXEC) != 0) {
    ::close(in[0]);
    ::close(in[1]);
    return refused();
  }
  std::vector<char*> pointers;
  for (const auto& x : command) pointers.push_back(const_cast<char*>(x.c_str()));  // exec does not change them
  pointers.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setpgid(0, 0);  // a terminal's Ctrl-C reaches only the launcher, which forwards it to the program of the first
                      // host
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::dup2(in[0], STDIN_FILENO);
    if (!leads) {
      ::dup2(out[1], STDOUT_FILENO);
      ::dup2(out[1], STDERR_FILENO);
    }
    ::execvp(pointers[0], pointers.data());
    ::dprintf(STDERR_FILENO, "cannot execute %s: %s\n", pointers[0], core::system_message(errno).c_str());
    ::_exit(no_connection);
  }
  if (pid > 0) ::setpgid(pid, pid);  // parent and child both call this, because either may run first
  ::close(in[0]);
  if (!leads) ::close(out[1]);
  host h{.name = name, .pid = pid, .in = in[1], .out = out[0], .said = {}, .last = {}, .code = {}, .killed_ns = {}};
  all_.push_back(std::move(h));
  return pid < 0 ? core::result<void>(refused()) : core::result<void>();
}

void launched_hosts::line(host& h, const std::string& text) {
  if (text == hold_is_there) {
    h.is_there = true;
    return;
  }
  h.last = text;
  const auto& leader = all_.front().code;
  // A signal has ended the program of the first host, and with it the job, so the last lines of other hosts are only
  // consequences.
  if (leader && *leader > killed) return;
  if (h.is_there) print_error_line(h.name + ": " + text);
}

void launched_hosts::listen(host& h) {
  std::array<char, 4096> bytes{};
  const ssize_t n = ::read(h.out, bytes.data(), bytes.size());
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n > 0) h.said.append(bytes.data(), static_cast<size_t>(n));
  for (size_t to = h.said.find('\n'); to != std::string::npos; to = h.said.find('\n')) {
    line(h, h.said.substr(0, to));
    h.said.erase(0, to + 1);
  }
  if (h.said.size() > line_bytes_max || (n <= 0 && !h.said.empty())) {
    line(h, h.said);
    h.said.clear();
  }
  if (n <= 0) close(h.out);
}

void launched_hosts::give_up(int code) {
  if (failure_) return;
  failure_ = code;
  give_up_ns_ = core::now_ns();
}

void launched_hosts::ended(host& h) {
  close(h.in);
  while (h.out >= 0) {  // reads the last output, without waiting for processes that may still hold the pipe
    pollfd on{h.out, POLLIN, 0};
    if (::poll(&on, 1, 0) <= 0) break;
    listen(h);
  }
  const bool leads = &h == &all_.front();
  if (leads) {
    over_ns_ = core::now_ns();
    // closes the other programs' inputs, so that an agent that has not joined a job stops waiting for one
    for (auto& other : all_) close(other.in);
    if (*h.code == no_connection) {
      std::fprintf(stderr, "troupe: error: %s cannot be reached, or has been lost\n", h.name.c_str());
      give_up(1);
    } else if (*h.code == killed + SIGKILL) {
      std::fprintf(stderr, "troupe: error: %s: the program that leads the job was killed (signal %d)\n", h.name.c_str(),
                   SIGKILL);
    }
    return;
  }
  if (*h.code == 0 || all_.front().code) return;
  if (!h.is_there) {
    std::fprintf(stderr, "troupe: error: %s cannot be reached: %s\n", h.name.c_str(),
                 h.last.empty() ? "ssh gave no reason" : h.last.c_str());
    give_up(1);
  } else if (*h.code == no_connection) {
    std::fprintf(stderr, "troupe: warning: %s: the connection has ended; its agent continues without it\n",
                 h.name.c_str());
  } else if (*h.code > killed) {
    h.killed_ns = core::now_ns();
  } else {
    give_up(*h.code);
  }
}

// Reports hosts whose agent was killed. A host with the leader's exit code is not reported: a signal that ends the job
// ends the programs of all hosts with the same code, in any order.
void launched_hosts::tell_killed(int64_t now_ns) {
  const auto& leader = all_.front().code;
  for (auto& h : all_) {
    if (!h.killed_ns || (!leader && now_ns < *h.killed_ns + say_ns_max)) continue;
    h.killed_ns.reset();
    if (leader != h.code)
      std::fprintf(stderr, "troupe: warning: %s: its agent was killed (signal %d)%s\n", h.name.c_str(),
                   *h.code - killed, leader ? "" : "; the job continues if it can");
  }
}

void launched_hosts::reap() {
  for (auto& h : all_) {
    int status = 0;
    if (h.code || ::waitpid(h.pid, &status, WNOHANG) != h.pid) continue;
    // The program of another host is ssh. If a signal has ended ssh, only the connection to the host has ended.
    const bool is_cut = &h != &all_.front() && WIFSIGNALED(status);
    h.code = WIFEXITED(status) ? WEXITSTATUS(status) : is_cut ? no_connection : killed + WTERMSIG(status);
    ended(h);
  }
}

int launched_hosts::run(int signals) {
  host& leader = all_.front();
  for (;;) {
    std::vector<pollfd> on{{signals, POLLIN, 0}};
    for (const auto& h : all_) on.push_back({h.out, POLLIN, 0});
    ::poll(on.data(), on.size(), 100);
    signalfd_siginfo info{};
    while (::read(signals, &info, sizeof info) == sizeof info) {
      const char number = static_cast<char>(info.ssi_signo);
      if (leader.in >= 0) (void)!::write(leader.in, &number, 1);
    }
    for (size_t i = 0; i < all_.size(); ++i)
      if (on[1 + i].revents != 0 && all_[i].out >= 0) listen(all_[i]);
    reap();
    const int64_t now = core::now_ns();
    tell_killed(now);
    const bool unreached =
        failure_ && std::ranges::any_of(all_, [](const auto& h) { return h.code && !h.is_there && h.pid > 0; });
    if (failure_ && leader.in >= 0 && (unreached || now > give_up_ns_ + say_ns_max))
      close(leader.in);  // at the end of its input, the program of the first host ends itself as if it had received
                         // SIGTERM
    if (leader.code && now > over_ns_ + (failure_ ? 0 : ending_ns_max))
      for (auto& h : all_)
        if (!h.code) ::kill(-h.pid, SIGTERM);
    if (std::ranges::all_of(all_, [](const auto& h) { return h.code.has_value(); }))
      return failure_ ? *failure_ : *leader.code;
  }
}

}  // namespace troupe::apps
