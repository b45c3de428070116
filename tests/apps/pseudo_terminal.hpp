// Runs a program on a pseudo-terminal, types text into it and reads its output. Owns the process and the terminal.
#pragma once

#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::tests {

class pseudo_terminal {
 public:
  /// `prepare` runs in the child process before the program is executed.
  pseudo_terminal(const std::vector<std::string>& command, const std::filesystem::path& folder,
                  const std::function<void()>& prepare = {}) {
    winsize size{};
    size.ws_row = 50;
    size.ws_col = 200;
    pid_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
    if (pid_ < 0) throw std::runtime_error("no pseudo-terminal");
    if (pid_ > 0) return;
    if (::chdir(folder.c_str()) != 0) ::_exit(126);
    ::setenv("TERM", "xterm", 1);
    if (prepare) prepare();
    std::vector<char*> arguments;
    for (const auto& a : command) arguments.push_back(const_cast<char*>(a.c_str()));
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ~pseudo_terminal() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    ::close(terminal_);
  }
  pseudo_terminal(const pseudo_terminal&) = delete;
  pseudo_terminal& operator=(const pseudo_terminal&) = delete;

  void type(const std::string& text) const {
    if (::write(terminal_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      throw std::runtime_error("nobody reads what is typed");
  }

  /// Reads until `text` appears in the output after the text that the previous successful call found. Returns false if
  /// the program ends before that, or after a minute.
  bool shows(const std::string& text) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    for (;;) {
      if (const size_t at = shown_.find(text, seen_); at != std::string::npos) {
        seen_ = at + text.size();
        return true;
      }
      if (std::chrono::steady_clock::now() > until || !read_some()) return false;
    }
  }

  /// Reads the output to its end. Returns the exit code, or 128 + the number of the signal that ended the program.
  int end() {
    while (read_some()) {
    }
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  [[nodiscard]] const std::string& shown() const { return shown_; }

 private:
  bool read_some() {
    pollfd waits{terminal_, POLLIN, 0};
    if (::poll(&waits, 1, 60'000) <= 0) return false;
    char piece[4096];
    const ssize_t n = ::read(terminal_, piece, sizeof piece);
    if (n <= 0) return false;
    shown_.append(piece, static_cast<size_t>(n));
    return true;
  }

  pid_t pid_ = -1;
  int terminal_ = -1;
  std::string shown_;
  size_t seen_ = 0;
};

}  // namespace troupe::tests
