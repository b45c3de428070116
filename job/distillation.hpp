// The teacher that a configuration names, and what the model loses to it. Owns the choice and its refusals; the table
// of both is models/table/teacher.hpp's, the arithmetic kernels/layers/distillation.hpp's.
#pragma once

#include <optional>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "models/table/teacher.hpp"

namespace troupe::job {

/// None without `distillation.enabled`. Reads the config.json of `model.teacher`. Refused (bad_input), with file, line
/// and key: another family, another vocabulary or fewer positions than `sequence` tokens, a folder without config.json,
/// and what distillation does not go together with yet.
core::result<std::optional<models::teaching>> choose_teaching(const config::job_config& config,
                                                              const models::model_spec& model, uint64_t sequence);

}  // namespace troupe::job
