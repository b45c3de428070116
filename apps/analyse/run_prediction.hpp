// Predicts the step of a run from the configuration in its folder, so that a measured step is held against it.
#pragma once

#include <filesystem>
#include <string>

#include "apps/analyse/analysis_page.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// A prediction that is analysed as a trace, and where its rates come from, as a clause.
struct predicted_traces {
  analysed_traces analysed;
  std::string source;
};

/// Largest number of ranks of a run whose step is predicted.
inline constexpr uint32_t predicted_ranks_max = 64;

/// Returns the predicted step of the run whose output folder this is, as `troupe plan` predicts it from the folder's
/// config.yaml and the constants of this machine. Errors: the folder has no configuration, or one that is refused;
/// degrees that the run chose; more than predicted_ranks_max ranks.
core::result<predicted_traces> predicted_run(const std::filesystem::path& folder);

}  // namespace troupe::apps
