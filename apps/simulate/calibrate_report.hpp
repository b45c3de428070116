// Formats what a fit of constants found: the constants, the errors of the rows, and the errors of rows that were left
// out, as text or JSON.
#pragma once

#include <string>
#include <vector>

#include "apps/simulate/measured_table.hpp"
#include "hardware/calibration.hpp"

namespace troupe::apps {

std::string calibrated_text(const measured_table& t, const std::vector<hardware::calibration>& all);
std::string calibrated_json(const measured_table& t, const std::vector<hardware::calibration>& all);

}  // namespace troupe::apps
