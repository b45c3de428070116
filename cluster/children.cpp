#include "cluster/children.hpp"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

#include "cluster/process.hpp"
#include "core/clock.hpp"
#include "core/system/cores.hpp"
#include "core/system/signal_table.hpp"

namespace troupe::cluster {
namespace {

/// Nanoseconds that children::kill and end_of_link wait for a process to end after SIGKILL or the end of its link.
constexpr int64_t reaping_ns = 200'000'000;

std::string end_of(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("ended with code {}", WEXITSTATUS(status));
}

}  // namespace

children::children(children_setup setup, received on_received, ended on_ended)
    : setup_(std::move(setup)), received_(std::move(on_received)), ended_(std::move(on_ended)), all_(setup_.places) {}

children::~children() { kill_all(); }

bool children::is_empty() const {
  return std::ranges::none_of(all_, [](const child& c) { return c.pid > 0; });
}

std::string children::condition_of(uint32_t place) const {
  std::ifstream in(fmt::format("/proc/{}/stat", all_[place].pid));
  std::string text((std::istreambuf_iterator<char>(in)), {});
  const size_t end = text.rfind(')');  // end of the process's name, which is in parentheses
  const char state = end != std::string::npos && end + 2 < text.size() ? text[end + 2] : '?';
  if (state == 'T') return ": it is stopped (SIGSTOP)";
  if (state == 't') return ": it is stopped by a debugger; set a longer cluster.lost_after to debug it";
  double load = 0;
  const auto crowd = ::getloadavg(&load, 1) == 1 ? crowd_text(load, core::usable_cores()) : std::string();
  if (state == 'D') return ": it waits for a disk, a device or memory" + crowd;
  return crowd;
}

std::string crowd_text(double load, uint32_t cores) {
  constexpr double crowded = 2;
  if (cores == 0 || load <= crowded * cores) return {};
  return fmt::format("; {:.0f} threads of its machine want {} cores, so that it may be healthy and starved: run less "
                     "there, or set a longer cluster.lost_after",
                     load, cores);
}

core::result<void> children::start(uint32_t place) {
  if (std::ranges::find(dying_, place, &std::pair<uint32_t, pid_t>::first) != dying_.end())
    return core::fail(core::error_kind::limit,
                      "the previous one was killed and has not ended yet: it waits for a disk, a device or memory");
  TROUPE_ASSIGN(auto ends, make_pair());
  const int inherited = ends.second->number();
  const std::string link = fmt::format("{}:{}", inherited, place);
  std::vector<char*> argv;
  for (const auto& a : setup_.arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  // The process gets its own process group: a terminal then sends signals only to this process, which passes them on.
  posix_spawnattr_t how;
  posix_spawn_file_actions_t files;
  // Signals that request a save. The process starts with them blocked and handles them later: their default action
  // would end it.
  sigset_t held;
  sigemptyset(&held);
  for (const auto& s : core::signal_table)
    if (s.effect == core::signal_effect::saves) sigaddset(&held, s.number);
  ::posix_spawnattr_init(&how);
  ::posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  ::posix_spawnattr_setsigmask(&how, &held);
  ::posix_spawn_file_actions_init(&files);
  // Duplicating a descriptor onto itself removes its close-on-exec flag, so that the started process inherits it.
  ::posix_spawn_file_actions_adddup2(&files, inherited, inherited);
  std::vector<std::string> variables{fmt::format("{}={}", link_variable, link)};
  for (char** v = environ; *v != nullptr; ++v) variables.emplace_back(*v);
  std::vector<char*> envp;
  for (auto& v : variables) envp.push_back(v.data());
  envp.push_back(nullptr);
  pid_t pid = 0;
  const int refused = ::posix_spawn(&pid, setup_.program.c_str(), &files, &how, argv.data(), envp.data());
  ::posix_spawn_file_actions_destroy(&files);
  ::posix_spawnattr_destroy(&how);
  if (refused != 0)
    return core::fail(core::error_kind::limit,
                      fmt::format("cannot execute {}: {}", setup_.program.string(), std::strerror(refused)));
  all_[place] = {pid, false, std::make_unique<socket_link>(ends.first)};
  return {};
}

// Waits for at most reaping_ns: a killed process that waits for a disk or a device may take long to end, and the
// calling thread must go on sending beats.
void children::kill(uint32_t place) {
  child& c = all_[place];
  if (c.pid > 0) {
    ::kill(c.pid, SIGKILL);
    const int64_t until = core::now_ns() + reaping_ns;
    pid_t gone = 0;
    while ((gone = ::waitpid(c.pid, nullptr, WNOHANG)) == 0 && core::now_ns() < until) ::usleep(200);
    if (gone == 0) dying_.emplace_back(place, c.pid);
  }
  c = {};
}

void children::kill_all() {
  for (uint32_t p = 0; p < all_.size(); ++p) kill(p);
}

void children::send(uint32_t place, parcel p) {
  const auto& c = all_[place];
  if (c.end == nullptr) return;
  const auto sent = c.end->send(std::move(p));
  // `listen` reports a process that has gone, after the messages that the process sent before its end.
  if (!sent && sent.error().kind != core::error_kind::peer_lost) end_of_link(place, "does not read what it is sent");
}

void children::pass_signal(uint32_t place, int number) const {
  if (all_[place].pid > 0) ::kill(all_[place].pid, number);
}

/// Handles the end of the link to a process: waits up to reaping_ns for the process to end, and reports how it ended
/// or, if it still runs, `how` the link ended. Kills the process unless it has announced its end or let_end() was
/// called.
void children::end_of_link(uint32_t place, const std::string& how) {
  child& c = all_[place];
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
  if (!c.leaves && !may_end_) kill(place);
  ended_(place, text);
}

void children::reap() {
  std::erase_if(dying_, [](const auto& x) { return ::waitpid(x.second, nullptr, WNOHANG) != 0; });
  for (uint32_t p = 0; p < all_.size(); ++p) {
    child& c = all_[p];
    int status = 0;
    if (c.pid == 0 || ::waitpid(c.pid, &status, WNOHANG) != c.pid) continue;
    c.pid = 0;
    hear(p);  // handles the messages that the process has sent before its end
    if (c.end == nullptr) continue;
    c.end.reset();
    ended_(p, end_of(status));
  }
}

void children::hear(uint32_t place) {
  child& c = all_[place];
  while (c.end != nullptr) {
    auto came = c.end->receive();
    if (!came && c.pid == 0) return;
    if (!came)
      return end_of_link(place, came.error().kind == core::error_kind::peer_lost
                                    ? "has closed its link to the supervisor"
                                    : came.error().text);
    if (came->empty()) return;
    for (auto& p : *came) {
      if (std::holds_alternative<leaving>(p.what)) c.leaves = true;
      received_(place, std::move(p));
    }
  }
}

void children::add_to(std::vector<pollfd>& on) const {
  for (const auto& c : all_) {
    if (c.end == nullptr) continue;
    const int events = POLLIN | (c.end->has_waiting() ? POLLOUT : 0);
    on.push_back({c.end->number(), static_cast<short>(events), 0});
  }
}

void children::listen(const std::vector<pollfd>& on, size_t first) {
  for (uint32_t p = 0; p < all_.size(); ++p) {
    const child& c = all_[p];
    if (c.end == nullptr) continue;
    const auto at = std::find_if(on.begin() + static_cast<std::ptrdiff_t>(first), on.end(),
                                 [&](const pollfd& x) { return x.fd == c.end->number(); });
    if (at == on.end()) continue;
    if ((at->revents & POLLOUT) != 0) (void)c.end->flush();
    if ((at->revents & (POLLIN | POLLHUP | POLLERR)) != 0) hear(p);
  }
  reap();
}

}  // namespace troupe::cluster
