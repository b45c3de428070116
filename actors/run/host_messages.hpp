// Passes warnings and log lines of a run, which any thread may put, to the host (the program that embeds Troupe) by
// calling its hooks on its own thread. Owns the box of lines between the threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "actors/run/hooks.hpp"

namespace troupe::actors {

/// Lines of text that any thread puts in and the host program's thread takes out; any number of threads may use it.
class line_box {
 public:
  /// Keeps at most `limit` lines; further lines are counted and reported as `what`, e.g. "warnings".
  line_box(size_t limit, std::string_view what) : limit_(limit), what_(what) {}

  void put(const std::string& line);
  /// Puts each line of `text` as a line of its own.
  void put_lines(const std::string& text);
  /// Removes and returns the oldest line; after the last line, returns one more with the number of lines that were
  /// dropped.
  std::optional<std::string> take();

 private:
  const size_t limit_;
  const std::string what_;
  std::mutex mutex_;
  std::deque<std::string> lines_;
  uint64_t lost_ = 0;
};

/// Largest number of log lines that wait for the next call of the session; further ones are counted and dropped.
inline constexpr size_t log_lines_max = 4096;

struct host_messages {
  session_hooks hooks{};
  std::shared_ptr<line_box> warnings = std::make_shared<line_box>(warnings_max, "warnings");
  std::shared_ptr<line_box> lines = std::make_shared<line_box>(log_lines_max, "lines");
  /// Exception that a hook threw while a plan was running; rethrown after the result of that run has been added to the
  /// run's progress.
  std::exception_ptr thrown{};

  /// Passes all waiting warnings and log lines to their hooks, and rethrows `thrown`. A line is removed before its hook
  /// is called: if the hook throws, the next call continues with the next line. Call on the host's thread.
  void deliver();
  /// Passes a warning to the host at once. Call on the host's thread.
  void say(const std::string& line) const {
    if (hooks.on_warning) hooks.on_warning(line);
  }
  /// Returns a function that any thread may call with a warning, which deliver() then passes to the hook on_warning.
  [[nodiscard]] std::function<void(const std::string&)> put_warning() const {
    return [box = warnings](const std::string& line) { box->put(line); };
  }
};

}  // namespace troupe::actors
