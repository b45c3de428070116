// Another program, run to its end or watched and signalled on the way: its output, its exit code, its signals.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace troupe::tests {

struct finished {
  int code = -1;  ///< exit code; 128 + signal where a signal ended it
  std::string out, err;
};

class process {
 public:
  /// `prepare` runs in the child before the program does. Throws where nothing can be started.
  process(const std::vector<std::string>& command, const std::filesystem::path& folder,
          const std::function<void()>& prepare = {});
  ~process();
  process(const process&) = delete;
  process& operator=(const process&) = delete;

  void send(int signal) const;
  /// Reads until stdout holds `text`; false where it ended without.
  bool wait_for(const std::string& text);
  /// Reads until stderr holds `text` so many times; false where it ended without.
  bool wait_for_error(const std::string& text, size_t times = 1);
  /// Whether stderr holds `text` within a tenth of a second.
  bool has_said(const std::string& text);
  /// Waits until the program has used `more` processor time; false if it ended before.
  bool wait_for_work(std::chrono::milliseconds more);
  /// Waits until the program takes this signal itself, by blocking it or by a handler; false if it ended before.
  bool wait_until_takes(int signal);
  /// Bytes of private writable memory, as RLIMIT_DATA counts them; 0 once it has ended.
  [[nodiscard]] uint64_t data_bytes() const;
  /// The file that its descriptor `number` is open on; empty if it is not open.
  [[nodiscard]] std::string opened(int number) const;
  /// Reads to the end. Kills the program and throws where it takes longer than `limit`.
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
