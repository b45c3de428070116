// For sessions, not for host programs: prepares the host program's own model, and makes its micro-batches.
#pragma once

#include <memory>
#include <string>

#include "actors/hands/tensor_batch.hpp"
#include "actors/loader.hpp"
#include "actors/modules/host_modules.hpp"
#include "actors/modules/own_model.hpp"
#include "config/sections/job_config.hpp"
#include "job/blueprint.hpp"
#include "models/host/prepared_modules.hpp"

namespace troupe::actors {

/// Returns a function that makes micro-batches by calling the functions of `model`, with Torch's random generator
/// seeded for each call; an exception of these functions becomes the failure of the batch.
std::function<std::shared_ptr<const data::batch>(const next_batch&)> host_cut(std::shared_ptr<const host_model> model,
                                                                              uint64_t seed);

/// Gets the first micro-batch from the host program, and makes an instance of its model for each rank. Errors:
/// those of prepared_modules and of unit_pass.hpp; missing functions; a first batch that cannot be made. If `changes`
/// is not null, writes to it a line for each change that passes over units made.
core::result<std::shared_ptr<models::prepared_modules>> prepare(const std::shared_ptr<const host_model>& model,
                                                                const config::job_config& config,
                                                                std::string* changes = nullptr);

/// Returns the tables (names, shapes and units of parameters) of the host program's own model, from which plans
/// are made; empty if there is no such model.
job::host_tables tables_of(const host_modules& modules);

}  // namespace troupe::actors
