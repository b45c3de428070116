// Formats an analysis of traces as a page for a browser: the lanes of one step, predicted ones above measured ones, and
// the tables of the analysis. Pure.
#pragma once

#include <string>

#include "core/error.hpp"
#include "telemetry/analysis/causes.hpp"
#include "telemetry/analysis/read_traces.hpp"

namespace troupe::apps {

/// The kept steps of traces, and what their analysis found.
struct analysed_traces {
  telemetry::kept_traces traces;
  telemetry::trace_analysis found;
  std::string of;  ///< names the traces
};

/// Returns the page. It draws the step whose length is the median of the analysed ones, and the same of a prediction.
/// `predicted` may be null. Errors: see telemetry::step_graph::of.
core::result<std::string> analysis_as_page(const analysed_traces& measured, const analysed_traces* predicted);

}  // namespace troupe::apps
