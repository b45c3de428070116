#include "cluster/launch.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "cluster/process.hpp"
#include "core/clock.hpp"

namespace troupe::cluster {
namespace {

/// How long a process whose link has ended may take to be gone, before it is killed.
constexpr int64_t reaping_ns = 200'000'000;

std::string end_of(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("ended with code {}", WEXITSTATUS(status));
}

class launcher {
 public:
  explicit launcher(const launch_options& o) : options_(o), supervision_(o.job), children_(o.job.places()) {}

  core::result<int> run() {
    if (auto ok = take_signals(); !ok) return core::fail(ok.error());
    supervision_.begin(core::now_ns());
    for (;;) {
      if (auto ok = act(); !ok) return core::fail(ok.error());
      if (code_ && std::ranges::none_of(children_, [](const child& c) { return c.pid > 0; })) return *code_;
      if (code_ && core::now_ns() > over_ns_ + ending_ns_max)
        for (uint32_t p = 0; p < children_.size(); ++p) kill(p);
      wait();
      supervision_.tick(core::now_ns());
    }
  }

 private:
  struct child {
    pid_t pid = 0;
    std::unique_ptr<socket_link> end;
  };

  core::result<void> take_signals() {
    sigset_t all;
    sigemptyset(&all);
    for (const int s : {SIGINT, SIGTERM, SIGUSR1, SIGCHLD}) sigaddset(&all, s);
    ::sigprocmask(SIG_BLOCK, &all, nullptr);
    signals_ = own(::signalfd(-1, &all, SFD_NONBLOCK | SFD_CLOEXEC));
    if (signals_->number() < 0) return core::fail(core::error_kind::limit, "the system refuses to wait for signals");
    return {};
  }

  core::result<void> act() {
    for (auto actions = supervision_.take(); !actions.empty(); actions = supervision_.take())
      for (auto& a : actions) {
        if (auto* x = std::get_if<send_to>(&a)) {
          auto& c = children_[x->place];
          if (c.end == nullptr) continue;
          if (const auto sent = c.end->send(std::move(x->what)); !sent) ended(x->place, "does not take what it is sent");
        } else if (const auto* x = std::get_if<start_process>(&a)) {
          if (auto ok = start(x->place); !ok) return ok;
        } else if (const auto* x = std::get_if<kill_process>(&a)) {
          kill(x->place);
        } else if (const auto* x = std::get_if<say>(&a)) {
          options_.say(x->line);
        } else if (const auto* x = std::get_if<finish>(&a)) {
          code_ = x->code;
          over_ns_ = core::now_ns();
        }
      }
    return {};
  }

  core::result<void> start(uint32_t place) {
    auto ends = make_pair();
    if (!ends) return core::fail(ends.error());
    const int inherited = ends->second->number();
    const std::string link = fmt::format("{}:{}", inherited, place);
    std::vector<char*> argv;
    for (const auto& a : options_.arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0)
      return core::fail(core::error_kind::limit,
                        fmt::format("cluster.processes: the system refuses process {}: {}", place, std::strerror(errno)));
    if (pid == 0) {
      ::setpgid(0, 0);  // what a terminal sends to all goes to this process alone, which tells them
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      sigset_t none;
      sigemptyset(&none);
      ::sigprocmask(SIG_SETMASK, &none, nullptr);
      ::fcntl(inherited, F_SETFD, 0);
      ::setenv(link_variable, link.c_str(), 1);
      ::execv(options_.program.c_str(), argv.data());
      ::_exit(127);
    }
    children_[place].pid = pid;
    children_[place].end = std::make_unique<socket_link>(ends->first);
    return {};
  }

  /// Until it is gone: nothing writes its memory afterwards.
  void kill(uint32_t place) {
    child& c = children_[place];
    if (c.pid > 0) {
      ::kill(c.pid, SIGKILL);
      ::waitpid(c.pid, nullptr, 0);
    }
    c = {};
  }

  /// Its link has ended: says how the process did.
  void ended(uint32_t place, const std::string& how) {
    child& c = children_[place];
    if (c.pid == 0) return;
    std::string text = how;
    const int64_t until = core::now_ns() + reaping_ns;
    int status = 0;
    pid_t gone = 0;
    while ((gone = ::waitpid(c.pid, &status, WNOHANG)) == 0 && core::now_ns() < until) ::usleep(1000);
    if (gone == c.pid) {
      text = end_of(status);
      c.pid = 0;
    }
    c.end.reset();
    // One that leaves in good order may take its time.
    if (supervision_.of(place) == standing::left || code_) return supervision_.closed(place, text, core::now_ns());
    kill(place);
    supervision_.closed(place, text, core::now_ns());
  }

  void reap() {
    for (uint32_t p = 0; p < children_.size(); ++p) {
      child& c = children_[p];
      int status = 0;
      if (c.pid == 0 || ::waitpid(c.pid, &status, WNOHANG) != c.pid) continue;
      c.pid = 0;
      hear(p);  // its last words
      if (c.end == nullptr) continue;
      c.end.reset();
      supervision_.closed(p, end_of(status), core::now_ns());
    }
  }

  void hear(uint32_t place) {
    child& c = children_[place];
    while (c.end != nullptr) {
      auto came = c.end->receive();
      if (!came) return c.pid == 0 ? void() : ended(place, came.error().text);
      if (came->empty()) return;
      for (auto& p : *came) supervision_.hear(place, std::move(p), core::now_ns());
    }
  }

  void on_signals() {
    signalfd_siginfo info{};
    while (::read(signals_->number(), &info, sizeof info) == sizeof info) {
      if (info.ssi_signo == SIGCHLD) continue;
      const child& first = children_[supervision_.leader()];
      if (first.pid > 0) ::kill(first.pid, static_cast<int>(info.ssi_signo));
    }
    reap();
  }

  void wait() {
    std::vector<pollfd> on{{signals_->number(), POLLIN, 0}};
    std::vector<uint32_t> places;
    for (uint32_t p = 0; p < children_.size(); ++p) {
      const auto& c = children_[p];
      if (c.end == nullptr) continue;
      const int events = POLLIN | (c.end->has_waiting() ? POLLOUT : 0);
      on.push_back({c.end->number(), static_cast<short>(events), 0});
      places.push_back(p);
    }
    const int64_t left_ms = (supervision_.due_ns() - core::now_ns()) / 1'000'000;
    ::poll(on.data(), on.size(), static_cast<int>(std::clamp<int64_t>(left_ms, 1, 200)));
    for (size_t i = 1; i < on.size(); ++i) {
      const uint32_t p = places[i - 1];
      auto& c = children_[p];
      if (c.end != nullptr && (on[i].revents & POLLOUT) != 0) (void)c.end->flush();
      if (c.end != nullptr && (on[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0) hear(p);
    }
    if (on[0].revents != 0) on_signals();
  }

  const launch_options& options_;
  supervision supervision_;
  std::vector<child> children_;
  shared_descriptor signals_;
  std::optional<int> code_;
  int64_t over_ns_ = 0;
};

}  // namespace

core::result<int> launch(const launch_options& options) { return launcher(options).run(); }

}  // namespace troupe::cluster
