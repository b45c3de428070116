// The telemetry actor, one per process, on a thread of its own: passes records to the recorder, writes the trace of
// selected steps and the files at the end of the run, so that no lane ever waits for a file.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "actors/messages.hpp"
#include "telemetry/report/recorder.hpp"

namespace troupe::actors {

struct telemetry_setup {                          ///< files that telemetry writes, and where it reports
  std::filesystem::path home;                     ///< the run's folder; empty: the run has none
  std::filesystem::path trace_file;               ///< path of the trace; empty: no trace is written
  uint64_t from_step = 0, steps = 0;              ///< steps [from_step, from_step + steps) are traced
  std::shared_ptr<telemetry::recorder> recorder;  ///< opened before the first message; null: only the trace is written
  std::filesystem::path report_file;              ///< path of the report; empty: no report is written
  std::filesystem::path communication_file;       ///< path of the communication log; empty: none is written
  std::filesystem::path profile_file;             ///< path of the profile of the units' times; empty: none is written
  std::filesystem::path flops_file;               ///< path of the flops profiler's table; empty: its lines go to `log`
  std::function<void(const core::error&)> complain;  ///< called once for each file that cannot be written
  std::function<void(const std::string&)> log;       ///< receives lines for the run's log
};

struct telemetry_state {        ///< a telemetry actor's state between messages
  telemetry_state() = default;  // not an aggregate: CAF would try to initialise its first member with the actor
  static inline const char* name = "telemetry";
  telemetry_setup setup;
  std::string events;  ///< JSON text of the trace events recorded so far, of at most `setup.steps` training steps
  int64_t zero_ns = 0;
  bool complained = false, profiled = false;
  bool was_home = false;   ///< true: the run's folder existed at a step
  bool told_gone = false;  ///< true: a complaint has reported that the run's folder was removed
};

/// Makes the behavior of a telemetry actor, for `spawn`.
telemetry_actor::behavior_type telemetry_impl(telemetry_actor::stateful_pointer<telemetry_state> self,
                                              telemetry_setup setup);

}  // namespace troupe::actors
