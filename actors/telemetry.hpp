// The telemetry actor: one per process, on a thread of its own. Feeds the recorder, writes the trace of chosen steps
// and the files at the end, so that no lane ever waits for a file.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "actors/messages.hpp"
#include "telemetry/recorder.hpp"

namespace troupe::actors {

struct telemetry_setup {                             ///< the files to write
  std::filesystem::path trace_file;                  ///< empty: none
  uint64_t from_step = 0, steps = 0;                 ///< steps [from_step, from_step + steps) are traced
  std::shared_ptr<telemetry::recorder> recorder;     ///< opened before the first message; null: only the trace
  std::filesystem::path report_file;                 ///< empty: none
  std::filesystem::path communication_file;          ///< empty: none
  std::filesystem::path profile_file;                ///< of units' times; empty: none
  std::filesystem::path flops_file;                  ///< of the flops profiler; empty: to `log`
  std::function<void(const core::error&)> complain;  ///< once for each file that cannot be written
  std::function<void(const std::string&)> log;       ///< lines for people
};

struct telemetry_state {        ///< its state between messages
  telemetry_state() = default;  // no aggregate: CAF would try to initialise its first member with the actor
  static inline const char* name = "telemetry";
  telemetry_setup setup;
  std::string events;  ///< bounded by `steps`
  int64_t zero_ns = 0;
  bool complained = false, profiled = false;
};

/// For `spawn`: a telemetry actor.
telemetry_actor::behavior_type telemetry_impl(telemetry_actor::stateful_pointer<telemetry_state> self,
                                              telemetry_setup setup);

}  // namespace troupe::actors
