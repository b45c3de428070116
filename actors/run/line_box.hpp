// Passes lines of text from any thread to the thread of the host program, which takes them out during a call of
// the session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::actors {

/// Lines of text that any thread puts in and the host program's thread takes out; any number of threads may use it
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

}  // namespace troupe::actors
