// Writes a run's weights, in the form that the forward pass uses, into one file.
#pragma once

#include <filesystem>

#include "core/error.hpp"

namespace troupe::actors {

struct training_run;

/// Writes the weights into one file; session::save_16bit_model describes its form. Returns false if nothing is written
/// because the configuration does not permit it at ZeRO stage 3.
core::result<bool> save_16bit_model(training_run& run, const std::filesystem::path& path,
                                    bool exclude_frozen_parameters);

}  // namespace troupe::actors
