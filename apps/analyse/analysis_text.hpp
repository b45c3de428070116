// Formats an analysis of traces as text and as JSON. Pure functions.
#pragma once

#include <string>

#include "telemetry/analysis/causes.hpp"

namespace troupe::apps {

/// A predicted step beside the measured ones; or, if there is none, why.
struct shown_prediction {
  const telemetry::trace_analysis* found = nullptr;
  std::string source;    ///< where its rates come from, as a clause; or the name of its file
  std::string why_none;  ///< empty: nobody asked for one
};

/// Returns tables of the critical path, of exposed communication and of waits, and the changes that gain most, for
/// people. `of` names the traces.
std::string analysis_as_text(const telemetry::trace_analysis& a, const std::string& of,
                             const shown_prediction& predicted = {});

/// Returns the analysis, with the figures of each step, as one JSON object. Times are in seconds.
std::string analysis_as_json(const telemetry::trace_analysis& a, const shown_prediction& predicted = {});

}  // namespace troupe::apps
