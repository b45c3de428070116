// Passes messages of a run to its host: warnings and log lines that any thread puts, and calls of hooks.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "actors/run/hooks.hpp"
#include "actors/run/line_box.hpp"

namespace troupe::actors {

/// Log lines kept until the next call of the session; further lines are counted, not kept.
inline constexpr size_t log_lines_max = 4096;

struct host_messages {
  session_hooks hooks{};
  std::shared_ptr<line_box> warnings = std::make_shared<line_box>(warnings_max, "warnings");
  std::shared_ptr<line_box> lines = std::make_shared<line_box>(log_lines_max, "lines");
  /// Exception that a hook threw while a plan was being run; rethrown once the result of that run is booked.
  std::exception_ptr thrown{};

  /// Calls the hooks for the warnings and lines so far, and rethrows `thrown`. A line is removed before its hook is
  /// called: if the hook throws, the next call continues with the next line.
  void deliver();
  /// Passes a warning to the host at once. Call on the host's thread.
  void say(const std::string& line) const {
    if (hooks.on_warning) hooks.on_warning(line);
  }
  /// Returns a function that puts a warning, for any thread.
  [[nodiscard]] std::function<void(const std::string&)> put_warning() const {
    return [box = warnings](const std::string& line) { box->put(line); };
  }
};

}  // namespace troupe::actors
