// The telemetry actor: one per process. Turns the spans of chosen steps into a Chrome/Perfetto trace on disk, so that
// no lane ever waits for a file.
#pragma once

#include <filesystem>
#include <functional>

#include "actors/messages.hpp"
#include "actors/trace.hpp"

namespace troupe::actors {

struct telemetry_setup {
  std::filesystem::path trace_file;                  ///< empty: none
  uint64_t from_step = 0, steps = 0;                 ///< steps [from_step, from_step + steps) are traced
  std::function<void(const core::error&)> complain;  ///< once, when the file cannot be written
};

struct telemetry_state {
  telemetry_state() = default;  // no aggregate: CAF would try to initialise its first member with the actor
  static inline const char* name = "telemetry";
  telemetry_setup setup;
  std::string events;  ///< bounded by `steps`
  int64_t zero_ns = 0;
  bool complained = false;
};

telemetry_actor::behavior_type telemetry_impl(telemetry_actor::stateful_pointer<telemetry_state> self,
                                              telemetry_setup setup);

}  // namespace troupe::actors
