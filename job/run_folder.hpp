// Reads from a run's folder the results of earlier runs for the choice of its pipeline: measured times of units, and
// the search for a schedule. Owns the test whether they belong to this job; pipeline.hpp uses them.
#pragma once

#include <filesystem>
#include <optional>

#include "core/error.hpp"
#include "plan/choose/profile.hpp"
#include "plan/schedule/kept_search.hpp"

namespace troupe::job {

/// Returns the folder's profile; nullopt if there is none of this model, micro-batch and type. Errors: a file that is
/// no profile, or cannot be read.
core::result<std::optional<plan::model_profile>> find_profile(const std::filesystem::path& folder,
                                                              const core::model_table& table, core::dtype parameter);

/// Returns the schedule that an earlier run found for the request `wanted`; nullopt if it searched for another request,
/// or if the files are incomplete.
std::optional<plan::found_schedule> find_search(const std::filesystem::path& folder,
                                                const plan::search_request& wanted);

}  // namespace troupe::job
