// Owns a program that answers each line with a line, for reference programs that take long to start compared with the
// measurement.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace troupe::tests {

class coprocess {
 public:
  /// `log`: path of the file to which the program's stderr is written.
  coprocess(std::vector<std::string> command, const std::string& log) {
    std::array<int, 2> to{-1, -1}, from{-1, -1};
    if (::pipe2(to.data(), O_CLOEXEC) != 0 || ::pipe2(from.data(), O_CLOEXEC) != 0) return;
    pid_ = ::fork();
    if (pid_ == 0) {
      const int errors = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(to[0], 0);
      ::dup2(from[1], 1);
      ::dup2(errors, 2);
      std::vector<char*> words;
      for (auto& word : command) words.push_back(word.data());
      words.push_back(nullptr);
      ::execvp(words[0], words.data());
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    to_ = ::fdopen(to[1], "w");
    from_ = ::fdopen(from[0], "r");
  }
  ~coprocess() {
    if (to_ != nullptr) std::fclose(to_);
    if (from_ != nullptr) std::fclose(from_);
    if (pid_ <= 0) return;
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
  coprocess(const coprocess&) = delete;
  coprocess& operator=(const coprocess&) = delete;

  /// Reads the next line and returns it without its newline; empty if the program has ended.
  std::optional<std::string> hear() {
    std::array<char, 256> line{};
    if (from_ == nullptr || std::fgets(line.data(), line.size(), from_) == nullptr) return std::nullopt;
    std::string text = line.data();
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }
  std::optional<std::string> ask(const std::string& line) {
    if (to_ == nullptr || std::fprintf(to_, "%s\n", line.c_str()) < 0 || std::fflush(to_) != 0) return std::nullopt;
    return hear();
  }

 private:
  int pid_ = -1;
  FILE* to_ = nullptr;
  FILE* from_ = nullptr;
};

}  // namespace troupe::tests
