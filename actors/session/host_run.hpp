// How a session prepares and feeds a host's own model. Not for hosts.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "actors/hands/tensor_batch.hpp"
#include "actors/loader.hpp"
#include "actors/session/host_model.hpp"
#include "config/sections/job_config.hpp"
#include "models/host/prepared_modules.hpp"

namespace troupe::actors {

/// Cuts a host's micro-batches: calls its function with torch's generator seeded, and turns what it throws into a
/// value.
std::function<std::shared_ptr<const data::batch>(const next_batch&)> host_cut(std::shared_ptr<const host_model> model,
                                                                              uint64_t seed);

/// Takes the first micro-batch and makes the instances of all ranks. Refuses what prepared_modules refuses, functions
/// that are missing, a first batch that cannot be had, and what unit_pass.hpp refuses. `changes`, where it is given,
/// is told what passes over units did, a line for each.
core::result<std::shared_ptr<models::prepared_modules>> prepare(const std::shared_ptr<const host_model>& model,
                                                                const config::job_config& config,
                                                                std::string* changes = nullptr);

}  // namespace troupe::actors
