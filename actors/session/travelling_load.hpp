// Options of a load as the process that leads tells them the others, and back. Owns that each of load_options arrives.
#pragma once

#include <filesystem>

#include "actors/processes/calls.hpp"
#include "actors/session/load_options.hpp"
#include "core/model_table.hpp"

namespace troupe::actors {

/// `custom_load_fn`, which cannot travel, is asked here for every parameter of the model.
wanted_load travelling(const std::filesystem::path& path, const load_options& options, const core::model_table& whole);
/// In any process, also the one that told it.
load_options arrived(const wanted_load& told);

}  // namespace troupe::actors
