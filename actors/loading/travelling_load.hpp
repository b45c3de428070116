// Converts the options of a load into the form in which the leading process sends them to the others, and back. Owns
// that every field of load_options arrives.
#pragma once

#include <filesystem>

#include "actors/loading/load_options.hpp"
#include "actors/processes/calls.hpp"
#include "core/model_table.hpp"

namespace troupe::actors {

/// Returns the options as a message. Calls `custom_load_fn`, which cannot be sent, for every parameter of the model.
wanted_load travelling(const std::filesystem::path& path, const load_options& options, const core::model_table& whole);
/// Converts a message's options to load options; every process, the sender included, uses the result.
load_options arrived(const wanted_load& told);

}  // namespace troupe::actors
