// Lines on their way from any thread to the host's, which takes them while it is in a call of the session.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::actors {

class line_box {  ///< holds a limited number of lines; thread-safe
 public:
  /// Keeps at most `limit` lines; those beyond are counted and named `what`, as "warnings".
  line_box(size_t limit, std::string_view what) : limit_(limit), what_(what) {}

  void put(const std::string& line);
  /// Each line of `text` for itself.
  void put_lines(const std::string& text);
  /// The oldest line that nobody has taken; after the last, one line that says how many were not kept.
  std::optional<std::string> take();

 private:
  const size_t limit_;
  const std::string what_;
  std::mutex mutex_;
  std::deque<std::string> lines_;
  uint64_t lost_ = 0;
};

}  // namespace troupe::actors
