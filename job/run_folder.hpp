// What earlier runs left in a run's folder for the choice of its pipeline: measured times of units, and the search for
// a schedule. Owns whether they are still of this job; what is made of them is pipeline.hpp's.
#pragma once

#include <filesystem>
#include <optional>

#include "core/error.hpp"
#include "plan/choose/profile.hpp"
#include "plan/schedule/kept_search.hpp"

namespace troupe::job {

/// The folder's profile, if there is one of this model, micro-batch and type. Errors: a file that is no profile, or
/// cannot be read.
core::result<std::optional<plan::model_profile>> find_profile(const std::filesystem::path& folder,
                                                              const core::model_table& table, core::dtype parameter);

/// What was found for the same request before; nothing where it was another one, or the files are not whole.
std::optional<plan::found_schedule> find_search(const std::filesystem::path& folder,
                                                const plan::search_request& wanted);

}  // namespace troupe::job
