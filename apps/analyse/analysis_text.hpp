// Formats an analysis of traces as text and as JSON. Pure functions.
#pragma once

#include <string>

#include "telemetry/analysis/causes.hpp"

namespace troupe::apps {

/// Returns tables of the critical path, of exposed communication and of waits, and the changes that gain most, for
/// people. `of` names the traces.
std::string analysis_as_text(const telemetry::trace_analysis& a, const std::string& of);

/// Returns the analysis, with the figures of each step, as one JSON object. Times are in seconds.
std::string analysis_as_json(const telemetry::trace_analysis& a);

}  // namespace troupe::apps
