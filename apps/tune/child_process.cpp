#include "apps/tune/child_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <system_error>

#include "apps/base/signals.hpp"
#include "core/clock.hpp"
#include "core/number.hpp"
#include "core/system/signal_table.hpp"
#include "core/system_error.hpp"
#include "core/text.hpp"
#include "job/machine_load.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

/// Bytes of standard error that are kept.
constexpr size_t errors_bytes_max = 8192;
/// Bytes of a line of standard output; a longer line is dropped.
constexpr size_t output_line_bytes_max = size_t{1} << 22U;
/// Processes of a program whose memory is summed, and which are killed with it.
constexpr size_t processes_max = 4096;
constexpr int ending_poll_ms = 20;

fs::path process_folder(pid_t pid) { return fs::path("/proc") / fmt::to_string(pid); }

/// Adds the numbers in `text` that are separated by blanks to `out`.
void add_numbers(std::string_view text, std::vector<pid_t>& out) {
  while (!text.empty()) {
    const size_t begin = text.find_first_not_of(" \n");
    if (begin == std::string_view::npos) return;
    text.remove_prefix(begin);
    const auto number = core::take_number<pid_t>(text);
    if (!number) return;
    out.push_back(*number);
  }
}

/// Returns the process and all that it and its children have started.
std::vector<pid_t> process_tree(pid_t root) {
  std::vector<pid_t> out{root};
  for (size_t i = 0; i < out.size() && out.size() < processes_max; ++i) {
    std::error_code e;
    for (fs::directory_iterator at(process_folder(out[i]) / "task", e), end; !e && at != end; at.increment(e))
      add_numbers(job::kernel_text(at->path() / "children"), out);
  }
  return out;
}

/// Returns the bytes in the line `name` of a text of /proc/PID/status; 0 if it has no such line.
uint64_t bytes_in(std::string_view status, std::string_view name) {
  const size_t at = status.find(name);
  if (at == std::string_view::npos) return 0;
  std::string_view rest = status.substr(at + name.size());
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  return core::take_number<uint64_t>(rest).value_or(0) << 10U;
}

/// Runs in the child: executes the program with the signals of a program that a shell starts.
[[noreturn]] void become(const std::vector<char*>& argv, pid_t parent, int out, int err) {
  ::setpgid(0, 0);  // a terminal's Ctrl-C reaches only the command, which ends its trial
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  for (const auto& s : core::signal_table)
    if (s.effect != core::signal_effect::ignored && !is_left_ignored(s.number)) std::signal(s.number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int empty = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (empty >= 0) ::dup2(empty, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

}  // namespace

core::result<std::unique_ptr<child_process>> child_process::start(const std::vector<std::string>& command) {
  const auto refused = [&](int number) {
    return core::fail(core::error_kind::limit,
                      fmt::format("cannot start '{}': {}", command.front(), core::system_message(number)));
  };
  std::array<int, 2> out{-1, -1}, err{-1, -1};
  if (::pipe2(out.data(), O_CLOEXEC) != 0) return refused(errno);
  if (::pipe2(err.data(), O_CLOEXEC) != 0) {
    const int why = errno;
    ::close(out[0]);
    ::close(out[1]);
    return refused(why);
  }
  std::vector<char*> argv;
  for (const auto& x : command) argv.push_back(const_cast<char*>(x.c_str()));  // execv does not change them
  argv.push_back(nullptr);
  const pid_t parent = ::getpid(), pid = ::fork();
  if (pid == 0) become(argv, parent, out[1], err[1]);
  const int why = errno;
  ::close(out[1]);
  ::close(err[1]);
  if (pid < 0) {
    ::close(out[0]);
    ::close(err[0]);
    return refused(why);
  }
  ::setpgid(pid, pid);  // parent and child both call this, because either may run first
  return std::unique_ptr<child_process>(new child_process(pid, out[0], err[0]));
}

child_process::~child_process() {
  if (!ended()) {
    kill();
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  for (const int descriptor : {out_, err_})
    if (descriptor >= 0) ::close(descriptor);
}

bool child_process::listen(int wait_ms, const line_function& line) {
  std::array<pollfd, 2> on{{{out_, POLLIN, 0}, {err_, POLLIN, 0}}};
  if (::poll(on.data(), on.size(), wait_ms) <= 0) return false;
  std::array<char, 65536> bytes{};
  bool has_read = false;
  for (size_t i = 0; i < on.size(); ++i) {
    int& descriptor = i == 0 ? out_ : err_;
    if (descriptor < 0 || on[i].revents == 0) continue;
    const ssize_t n = ::read(descriptor, bytes.data(), bytes.size());
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) {
      ::close(descriptor);
      descriptor = -1;
      continue;
    }
    has_read = true;
    (i == 0 ? line_ : errors_).append(bytes.data(), static_cast<size_t>(n));
  }
  if (errors_.size() > errors_bytes_max) errors_.erase(0, errors_.size() - errors_bytes_max);
  size_t begin = 0;
  for (size_t end = 0; (end = line_.find('\n', begin)) != std::string::npos; begin = end + 1)
    line(std::string_view(line_).substr(begin, end - begin));
  line_.erase(0, begin);
  if (line_.size() > output_line_bytes_max) line_.clear();
  return has_read;
}

std::optional<int> child_process::ended() {
  if (code_) return code_;
  int status = 0;
  const pid_t found = ::waitpid(pid_, &status, WNOHANG);
  if (found != pid_) return std::nullopt;
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return code_;
}

void child_process::ask_to_end() const {
  if (!code_) ::kill(pid_, SIGTERM);
}

void child_process::kill() const {
  if (code_) return;
  for (const pid_t one : process_tree(pid_)) ::kill(one, SIGKILL);
}

void child_process::end(double grace_s) {
  ask_to_end();
  const int64_t begin_ns = core::now_ns();
  while (!ended() && core::seconds_since(begin_ns) < grace_s) listen(ending_poll_ms, [](std::string_view) {});
  kill();
  while (!ended()) listen(ending_poll_ms, [](std::string_view) {});
  ::kill(-pid_, SIGKILL);  // processes of the program's group that it has left behind
}

uint64_t child_process::memory_bytes() const {
  std::vector<std::string> statuses;
  for (const pid_t one : process_tree(pid_)) statuses.push_back(job::kernel_text(process_folder(one) / "status"));
  return memory_in(statuses);
}

std::string child_process::last_error() const {
  std::string_view text = core::trimmed(errors_);
  const size_t end = text.rfind('\n');
  if (end != std::string_view::npos) text.remove_prefix(end + 1);
  return core::printable_line(text);
}

uint64_t memory_in(const std::vector<std::string>& statuses) {
  uint64_t own = 0, shared = 0;
  for (const auto& one : statuses) {
    own += bytes_in(one, "\nRssAnon:");
    shared = std::max(shared, bytes_in(one, "\nRssShmem:"));
  }
  return own + shared;
}

}  // namespace troupe::apps
