// What a session keeps of its recording: the recorder that the telemetry actor feeds, the bound on what is under way,
// and lines on their way to the host's thread. Part of parts.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "actors/messages.hpp"
#include "telemetry/memory_table.hpp"
#include "telemetry/recorder.hpp"

namespace troupe::actors {

/// How long the end of a run waits for files.
inline constexpr std::chrono::seconds closing_patience{60};

/// Log lines kept until the session is called next; what comes beyond is counted, not kept.
inline constexpr size_t log_lines_max = 4096;

class line_box {
 public:
  /// From any thread.
  void put(const std::string& line) {
    const std::lock_guard lock(mutex_);
    if (lines_.size() < log_lines_max)
      lines_.push_back(line);
    else
      ++lost_;
  }
  void put_lines(const std::string& text) {
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) put(line);
  }
  /// The oldest line that nobody has taken; last, one about those beyond the limit.
  std::optional<std::string> take() {
    const std::lock_guard lock(mutex_);
    if (!lines_.empty()) {
      auto line = std::move(lines_.front());
      lines_.pop_front();
      return line;
    }
    if (const uint64_t lost = std::exchange(lost_, 0); lost > 0)
      return std::to_string(lost) + " further lines were not kept";
    return std::nullopt;
  }

 private:
  std::mutex mutex_;
  std::deque<std::string> lines_;
  uint64_t lost_ = 0;
};

struct session_recording {
  std::shared_ptr<telemetry::recorder> recorder;
  record_queue queue;
  std::shared_ptr<line_box> lines = std::make_shared<line_box>();
  std::shared_ptr<const telemetry::validation_values> last_validation;
  double step_seconds = 0;
  bool is_open = false, is_closed = false;
};

}  // namespace troupe::actors
