// State of a session's recording: the recorder that the telemetry actor feeds, the queue that limits unfinished
// records, and log lines for the host. Part of parts.hpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "actors/record_queue.hpp"
#include "actors/session/line_box.hpp"
#include "telemetry/figures/memory_table.hpp"
#include "telemetry/report/recorder.hpp"

namespace troupe::actors {

/// Longest wait at the end of a run for its files to be written.
inline constexpr std::chrono::seconds closing_patience{60};

/// Log lines kept until the next call of the session; further lines are counted, not kept.
inline constexpr size_t log_lines_max = 4096;

struct session_recording {
  std::shared_ptr<telemetry::recorder> recorder;
  record_queue queue;
  std::shared_ptr<line_box> lines = std::make_shared<line_box>(log_lines_max, "lines");
  std::shared_ptr<const telemetry::validation_values> last_validation;
  std::weak_ptr<const void> last_step;  ///< expires once the last step's record is written, or was dropped
  double step_seconds = 0;
  /// Folder of the checkpoint whose curves are continued; empty: the run began afresh.
  std::filesystem::path resumed_from;
  bool is_open = false, is_closed = false;
};

}  // namespace troupe::actors
