// Reads from a run's folder two results of earlier runs that help to choose its pipeline: the measured times of units,
// and the result of a search for a schedule. Owns the test whether they belong to this job; pipeline.hpp uses them.
#pragma once

#include <filesystem>
#include <optional>

#include "core/error.hpp"
#include "plan/choose/profile.hpp"
#include "plan/schedule/kept_search.hpp"

namespace troupe::job {

/// Returns the profile of unit times in the run's folder; nullopt if the folder has none that was measured with this
/// model, micro-batch and parameter type. Errors: a file that is no profile, or cannot be read.
core::result<std::optional<plan::model_profile>> find_profile(const std::filesystem::path& folder,
                                                              const core::model_table& table, core::dtype parameter);

/// Returns the schedule that an earlier run in this folder found for the same search request `wanted`; nullopt if the
/// folder has a result for another request, or incomplete files.
std::optional<plan::found_schedule> find_search(const std::filesystem::path& folder,
                                                const plan::search_request& wanted);

}  // namespace troupe::job
