// Where a step's time goes, as `troupe train` tells it at its end.
#pragma once

#include <string>
#include <vector>

#include "telemetry/work_figures.hpp"

namespace troupe::apps {

/// Units that the text names; of more, those that take longest, and the others together.
inline constexpr size_t units_listed_limit = 8;

/// `units`: their names, in the model's order. `peak_flops`: of one rank's core, measured with matrix products; 0: not
/// known, then nothing is said of it. `step_s`: what shares are of.
std::string work_text(const telemetry::work_figures& w, const std::vector<std::string>& units, double step_s,
                      double peak_flops);
/// The same as a JSON object, with every unit.
std::string work_json(const telemetry::work_figures& w, const std::vector<std::string>& units, double peak_flops);

}  // namespace troupe::apps
