// Owns `troupe doctor`, which reports this machine's properties that matter for training, with the cost of each missing
// feature and the command that provides it.
#pragma once

#include <string>
#include <vector>

#include "apps/base/output_form.hpp"
#include "apps/machine/findings.hpp"

namespace troupe::apps {

/// Versions that this program was built with, and whether the CUDA library is installed; no library is loaded to find
/// them out.
struct build_versions {
  std::string troupe, compiler, caf, libtorch, libtorch_cuda;
  bool cuda = false;  ///< true: libtroupe_cuda.so, which contains the CUDA kernels, is installed with troupe-train
};
build_versions versions();

/// Returns one line for each finding, and two more lines, the cost and the remedy, for each finding that is not fine.
std::string doctor_text(const build_versions& v, const std::vector<finding>& all);
/// Returns the report as JSON: {"versions": {...}, "findings": [{"topic", "condition", "found", "costs", "command"}],
/// "fit": bool}.
std::string doctor_json(const build_versions& v, const std::vector<finding>& all);

/// Examines this machine and `folder`, and prints the findings. Returns the exit code: 0, or 1 if training lacks
/// something.
int doctor(const std::string& folder, output_form form);

}  // namespace troupe::apps
