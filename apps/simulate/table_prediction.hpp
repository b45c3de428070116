// Owns `troupe simulate --table`: predicts every row of a table of measurements and compares it with what was measured.
#pragma once

#include "apps/base/output_form.hpp"
#include "apps/simulate/measured_table.hpp"

namespace troupe::apps {

/// Predicts and prints. Exit codes: 0 done, 1 the output cannot be written, 2 bad input.
int show_predictions(const table_arguments& a, output_form form);

}  // namespace troupe::apps
