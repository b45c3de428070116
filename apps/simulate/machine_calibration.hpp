// Owns `troupe calibrate` without a table: measures this machine and keeps its constants for later predictions.
#pragma once

#include "apps/base/output_form.hpp"

namespace troupe::apps {

/// Measures all cores at the same time, keeps the constants unless other programs are busy, and prints both. Exit
/// codes: 0 done, also if nothing is kept because of other programs; 1 the machine cannot be measured, or the file not
/// written.
int calibrate_machine(output_form form);

}  // namespace troupe::apps
