// Prepares a host's own model and cuts its micro-batches for a session. Not for hosts.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "actors/hands/tensor_batch.hpp"
#include "actors/loader.hpp"
#include "actors/modules/host_modules.hpp"
#include "actors/modules/own_model.hpp"
#include "config/sections/job_config.hpp"
#include "job/blueprint.hpp"
#include "models/host/prepared_modules.hpp"

namespace troupe::actors {

/// Returns a function that cuts a host's micro-batches: it calls the host's function with torch's generator seeded, and
/// turns exceptions of that function into errors.
std::function<std::shared_ptr<const data::batch>(const next_batch&)> host_cut(std::shared_ptr<const host_model> model,
                                                                              uint64_t seed);

/// Requests the first micro-batch and makes the instances of all ranks. Errors: those of prepared_modules and of
/// unit_pass.hpp, missing functions, a first batch that cannot be made. Writes to `changes`, if it is not null, a line
/// for each change that passes over units made.
core::result<std::shared_ptr<models::prepared_modules>> prepare(const std::shared_ptr<const host_model>& model,
                                                                const config::job_config& config,
                                                                std::string* changes = nullptr);

/// Returns the tables of a host's own model for planning; empty if there is none.
job::host_tables tables_of(const host_modules& modules);

}  // namespace troupe::actors
