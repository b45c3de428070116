// Owns a child process: runs it to its end, or reads its output and sends it signals while it runs. Returns its output
// and exit code.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace troupe::tests {

struct finished {
  int code = -1;  ///< exit code; 128 + signal if a signal ended the program
  std::string out, err;
};

class process {
 public:
  /// `prepare` runs in the child process before the program is executed. Throws if the process cannot be started.
  process(const std::vector<std::string>& command, const std::filesystem::path& folder,
          const std::function<void()>& prepare = {});
  ~process();
  process(const process&) = delete;
  process& operator=(const process&) = delete;

  void send(int signal) const;
  /// Reads stdout until it contains `text`. Returns false if the program ends before that.
  bool wait_for(const std::string& text);
  /// Reads stderr until it contains `text` at least `times` times. Returns false if the program ends before that.
  bool wait_for_error(const std::string& text, size_t times = 1);
  /// Returns true if stderr contains `text`; waits at most 0.1 s for it.
  bool has_said(const std::string& text);
  /// Waits until the program has used `more` processor time. Returns false if the program ends before that.
  bool wait_for_work(std::chrono::milliseconds more);
  /// Waits until the program blocks this signal or has a handler for it. Returns false if the program ends before that.
  bool wait_until_takes(int signal);
  /// Returns the bytes of the program's private writable memory, as RLIMIT_DATA counts them; 0 once the program has
  /// ended.
  [[nodiscard]] uint64_t data_bytes() const;
  /// Returns the path of the file on which the program's descriptor `number` is open; empty if the descriptor is not
  /// open.
  [[nodiscard]] std::string opened(int number) const;
  /// Reads the output to its end and returns it. Kills the program and throws if it runs longer than `limit`.
  finished end(std::chrono::seconds limit = std::chrono::seconds(60));

 private:
  bool read_some(int timeout_ms);
  bool wait_for(const std::string& stream, const std::string& text, size_t times);
  [[nodiscard]] std::chrono::milliseconds processor_time() const;

  int pid_ = -1;
  int out_ = -1, err_ = -1;
  finished result_;
};

inline finished run(const std::vector<std::string>& command, const std::filesystem::path& folder,
                    const std::function<void()>& prepare = {}) {
  return process(command, folder, prepare).end();
}

}  // namespace troupe::tests
