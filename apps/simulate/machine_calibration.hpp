// Owns `troupe calibrate` without a table: measures this machine and keeps its constants for later predictions.
#pragma once

#include <string>

#include "apps/base/output_form.hpp"

namespace troupe::apps {

/// Measures all cores at the same time and, unless `disk_folder` is empty, the disk of that folder; keeps the constants
/// unless other programs are busy, and prints both. Exit codes: 0 done, also if nothing is kept because of other
/// programs; 1 the machine cannot be measured, or the file not written; 2 there is no such folder.
int calibrate_machine(const std::string& disk_folder, output_form form);

}  // namespace troupe::apps
