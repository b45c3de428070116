#include "tests/apps/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>

namespace troupe::tests {
namespace {
constexpr int patience_ms = 60000;
constexpr int poll_ms = 10;
}  // namespace

process::process(const std::vector<std::string>& command, const std::filesystem::path& folder,
                 const std::function<void()>& prepare) {
  int out[2], err[2];
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  std::vector<char*> argv;
  for (const auto& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork");
  if (pid_ == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    if (::chdir(folder.c_str()) != 0) ::_exit(126);
    if (prepare) prepare();
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(out[1]);
  ::close(err[1]);
  out_ = out[0];
  err_ = err[0];
}

process::~process() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  for (int fd : {out_, err_})
    if (fd >= 0) ::close(fd);
}

void process::send(int signal) const { ::kill(pid_, signal); }

// Reads what is available within `timeout_ms`. Returns false if both pipes are closed, or if nothing arrived in time.
bool process::read_some(int timeout_ms) {
  pollfd fds[] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
  if ((out_ < 0 && err_ < 0) || ::poll(fds, 2, timeout_ms) <= 0) return false;
  char buffer[65536];
  for (auto [fd, into] : {std::pair{&out_, &result_.out}, std::pair{&err_, &result_.err}}) {
    const auto& state = fds[into == &result_.out ? 0 : 1];
    if (*fd < 0 || state.revents == 0) continue;
    const ssize_t n = ::read(*fd, buffer, sizeof buffer);
    if (n > 0) {
      into->append(buffer, static_cast<size_t>(n));
    } else {
      ::close(*fd);
      *fd = -1;
    }
  }
  return out_ >= 0 || err_ >= 0;
}

bool process::wait_for(const std::string& stream, const std::string& text, size_t times) {
  const auto holds = [&] {
    size_t found = 0;
    for (size_t at = stream.find(text); at != std::string::npos; at = stream.find(text, at + text.size())) ++found;
    return found >= times;
  };
  while (!holds())
    if (!read_some(patience_ms)) return holds();
  return true;
}

bool process::wait_for(const std::string& text) { return wait_for(result_.out, text, 1); }
bool process::wait_for_error(const std::string& text, size_t times) { return wait_for(result_.err, text, times); }

bool process::has_said(const std::string& text) {
  if (result_.err.find(text) == std::string::npos) (void)read_some(100);
  return result_.err.find(text) != std::string::npos;
}

std::chrono::milliseconds process::processor_time() const {
  std::ifstream file(fmt::format("/proc/{}/stat", pid_));
  std::string field, rest;
  std::getline(file, rest, ')');  // the process name before the parenthesis may contain spaces
  for (int i = 0; i < 11; ++i) file >> field;
  long user = 0, system = 0;
  file >> user >> system;
  return std::chrono::milliseconds((user + system) * 1000 / ::sysconf(_SC_CLK_TCK));
}

bool process::wait_until_takes(int signal) {
  const uint64_t bit = uint64_t{1} << static_cast<unsigned>(signal - 1);
  for (int waited_ms = 0; waited_ms < patience_ms; waited_ms += poll_ms) {
    std::ifstream status(fmt::format("/proc/{}/status", pid_));
    for (std::string line; std::getline(status, line);)
      if ((line.starts_with("SigBlk:") || line.starts_with("SigCgt:")) &&
          (std::stoull(line.substr(7), nullptr, 16) & bit) != 0)
        return true;
    if (::kill(pid_, 0) != 0 || (!read_some(poll_ms) && out_ < 0 && err_ < 0)) return false;
  }
  return false;
}

bool process::wait_for_work(std::chrono::milliseconds more) {
#ifdef __SANITIZE_ADDRESS__
  more *= 10;
#endif
  const auto enough = processor_time() + more;
  while (out_ >= 0 || err_ >= 0) {
    if (processor_time() >= enough) return true;
    read_some(poll_ms);
  }
  return false;
}

uint64_t process::data_bytes() const {
  std::ifstream file(fmt::format("/proc/{}/status", pid_));
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("VmData:")) return std::stoull(line.substr(7)) * 1024;  // /proc states the size in KiB
  return 0;
}

std::string process::opened(int number) const {
  std::error_code e;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/fd/{}", pid_, number), e).string();
}

finished process::end(std::chrono::seconds limit) {
#ifdef __SANITIZE_ADDRESS__
  limit *= 10;  // sanitizers make programs several times slower
#endif
  const auto until = std::chrono::steady_clock::now() + limit;
  while (out_ >= 0 || err_ >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) throw std::runtime_error("still running: " + result_.out + result_.err);
    read_some(static_cast<int>(left.count()));
  }
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  result_.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result_;
}

}  // namespace troupe::tests
