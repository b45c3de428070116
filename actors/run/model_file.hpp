// Writes a run's weights, in the form that the forward pass uses, into one file.
#pragma once

#include <filesystem>

#include "core/error.hpp"

namespace troupe::actors {

struct training_run;

/// Writes the file as session::save_16bit_model says. Returns false if it is not written at stage 3.
core::result<bool> save_16bit_model(training_run& run, const std::filesystem::path& path,
                                    bool exclude_frozen_parameters);

}  // namespace troupe::actors
