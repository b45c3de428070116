// Converts load_options into the message in which the leading process sends them to the other processes of a job, and
// back, without loss of any field.
#pragma once

#include <filesystem>

#include "actors/loading/load_options.hpp"
#include "actors/processes/calls.hpp"
#include "core/model_table.hpp"

namespace troupe::actors {

/// Returns the message for a load of the checkpoint at `path`. Calls `custom_load_fn`, which cannot be sent, for every
/// parameter of the model `whole`.
wanted_load travelling(const std::filesystem::path& path, const load_options& options, const core::model_table& whole);
/// Converts a message back to options; every process, the sender included, loads with the result, so that all load
/// alike.
load_options arrived(const wanted_load& told);

}  // namespace troupe::actors
