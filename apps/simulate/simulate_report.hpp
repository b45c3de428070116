// Formats the predictions of a table: errors, the worst rows and the constants that matter most, as text, JSON or CSV.
#pragma once

#include <string>
#include <vector>

#include "apps/simulate/measured_table.hpp"
#include "hardware/evaluation.hpp"

namespace troupe::apps {

/// Number of rows with the largest errors that a report shows.
inline constexpr size_t most_worst_rows = 10;

/// Returns the text of a quantity's errors: "0.7 %"; a dash for an absent number.
std::string percent_text(double percent);
/// Returns a measured or predicted value with its unit: "14.72 s", "28.3 GiB".
std::string value_text(hardware::quantity q, double value);

std::string simulated_text(const measured_table& t, const std::vector<hardware::priced_sample>& priced);
std::string simulated_json(const measured_table& t, const std::vector<hardware::priced_sample>& priced);
std::string simulated_csv(const measured_table& t, const std::vector<hardware::priced_sample>& priced);

}  // namespace troupe::apps
