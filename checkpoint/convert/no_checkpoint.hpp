// Explains why a path is not a checkpoint: a folder of an adapter, weights that no reader takes from a folder by itself
// (formats of other programs, files that are read only when they are named), or signs of no format. Leaves the search
// for checkpoints to folder_contents.hpp.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/error.hpp"

namespace troupe::checkpoint {

/// Describes weights in a folder that are not read, such as "'tf_model.h5', weights of Keras or TensorFlow, which are
/// not read", and how to proceed; nothing if no name in the folder is that of weights.
std::optional<std::string> unread_weights_in(const std::filesystem::path& folder);

/// Returns why a folder of no format is not a checkpoint: what it is instead, or which files would identify one.
core::error no_checkpoint(const std::filesystem::path& folder);

/// Returns the error for a file of no format.
core::error no_file_of_weights(const std::filesystem::path& file);

}  // namespace troupe::checkpoint
