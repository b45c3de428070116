#include "cluster/launch.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <utility>

#include "cluster/process.hpp"
#include "core/clock.hpp"

namespace troupe::cluster {
namespace {

/// How long a process whose link has ended may take to be gone, before it is killed.
constexpr int64_t reaping_ns = 200'000'000;

std::string end_of(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("ended with code {}", WEXITSTATUS(status));
}

/// What the system says of a process that is silent.
std::string condition_of(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/stat", pid));
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const size_t end = text.rfind(')');  // of its name
  const char state = end != std::string::npos && end + 2 < text.size() ? text[end + 2] : '?';
  if (state == 'T') return ": it is stopped (SIGSTOP)";
  if (state == 't') return ": a debugger holds it; a longer cluster.lost_after waits for it";
  if (state == 'D') return ": it waits for a disk or a device that does not answer";
  return {};
}

class launcher {
 public:
  explicit launcher(const launch_options& o) : options_(o), supervision_(watched(o.job)), children_(o.job.places()) {}

  core::result<int> run() {
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
  /// The job, whose supervision asks how its processes are.
  supervised_job watched(supervised_job job) {
    job.condition = [this](uint32_t place) { return condition_of(children_[place].pid); };
    return job;
  }

  struct child {
    pid_t pid = 0;
    std::unique_ptr<socket_link> end;
  };

  core::result<void> act() {
    for (auto actions = supervision_.take(); !actions.empty(); actions = supervision_.take())
      for (auto& a : actions) {
        if (auto* x = std::get_if<send_to>(&a)) {
          auto& c = children_[x->place];
          if (c.end == nullptr) continue;
          if (const auto sent = c.end->send(std::move(x->what)); !sent)
            ended(x->place, "does not take what it is sent");
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
    // A group of its own: what a terminal sends to all goes to this process alone, which passes it on.
    posix_spawnattr_t how;
    posix_spawn_file_actions_t files;
    sigset_t none;
    sigemptyset(&none);
    ::posix_spawnattr_init(&how);
    ::posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    ::posix_spawnattr_setsigmask(&how, &none);
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_adddup2(&files, inherited, inherited);  // onto itself: it stays open
    std::vector<std::string> variables{fmt::format("{}={}", link_variable, link)};
    for (char** v = environ; *v != nullptr; ++v) variables.emplace_back(*v);
    std::vector<char*> envp;
    for (auto& v : variables) envp.push_back(v.data());
    envp.push_back(nullptr);
    pid_t pid = 0;
    const int refused = ::posix_spawn(&pid, options_.program.c_str(), &files, &how, argv.data(), envp.data());
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&how);
    if (refused != 0)
      return core::fail(core::error_kind::limit, fmt::format("cluster.processes: the system refuses process {}, {}: {}",
                                                             place, options_.program.string(), std::strerror(refused)));
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

  void pass_on() {
    signalfd_siginfo info{};
    while (::read(options_.signals->number(), &info, sizeof info) == sizeof info) {
      const child& first = children_[supervision_.leader()];
      if (first.pid > 0) ::kill(first.pid, static_cast<int>(info.ssi_signo));
    }
  }

  void wait() {
    std::vector<pollfd> on{{options_.signals ? options_.signals->number() : -1, POLLIN, 0}};
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
    if (on[0].revents != 0) pass_on();
    reap();
  }

  const launch_options& options_;
  supervision supervision_;
  std::vector<child> children_;
  std::optional<int> code_;
  int64_t over_ns_ = 0;
};

}  // namespace

core::result<int> launch(const launch_options& options) { return launcher(options).run(); }

}  // namespace troupe::cluster
