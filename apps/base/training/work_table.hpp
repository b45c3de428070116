// Formats the table of the time that each part of a step takes, for the end of `troupe train`.
#pragma once

#include <string>
#include <vector>

#include "telemetry/figures/work_figures.hpp"

namespace troupe::apps {

/// Largest number of model units that work_text() lists; with more units, the slowest are listed and the others summed
/// in one line.
inline constexpr size_t units_listed_limit = 8;

/// Returns the table as text. `units` are names in the model's order. `peak_flops` is the rate of one rank's core,
/// measured with matrix products; 0: unknown and not shown. Shares are relative to `step_s`.
std::string work_text(const telemetry::work_figures& w, const std::vector<std::string>& units, double step_s,
                      double peak_flops);
/// Returns the figures of work_text() as a JSON object, with every unit.
std::string work_json(const telemetry::work_figures& w, const std::vector<std::string>& units, double peak_flops);

}  // namespace troupe::apps
