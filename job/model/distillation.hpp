// Chooses the teacher that a configuration names, and the terms of the distillation loss. Owns the choice and its
// refusals; models/table/teacher.hpp builds the table of both models, kernels/layers/distillation.hpp does the
// arithmetic.
#pragma once

#include <optional>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "models/table/teacher.hpp"

namespace troupe::job {

/// Returns nullopt unless `distillation.enabled`. Reads the config.json of `model.teacher`. Refused (bad_input), with
/// file, line and key: another family, another vocabulary or fewer positions than `sequence` tokens, a folder without
/// config.json, and everything that cannot be combined with distillation yet.
core::result<std::optional<models::teaching>> choose_teaching(const config::job_config& config,
                                                              const models::model_spec& model, uint64_t sequence);

}  // namespace troupe::job
