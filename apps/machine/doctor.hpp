// `troupe doctor`: what this machine offers, what is missing, what that costs and how to get it.
#pragma once

#include <string>
#include <vector>

#include "apps/base/output_form.hpp"
#include "apps/machine/findings.hpp"

namespace troupe::apps {

/// What this troupe was built with; a fact of the build, nothing is loaded for it.
struct build_versions {
  std::string troupe, compiler, caf, libtorch, libtorch_cuda;
  bool cuda = false;  ///< CUDA kernels
};
build_versions versions();

/// One line a finding; two more, what it costs and what mends it, for those that are not fine.
std::string doctor_text(const build_versions& v, const std::vector<finding>& all);
/// {"versions": {...}, "findings": [{"topic", "condition", "found", "costs", "command"}], "fit": bool}
std::string doctor_json(const build_versions& v, const std::vector<finding>& all);

/// Examines this machine and `folder` and prints. Returns the exit code: 0, or 1 where something needed is missing.
int doctor(const std::string& folder, output_form form);

}  // namespace troupe::apps
