// Explains why a path is not a checkpoint: it is a folder of an adapter; it holds weights that no reader opens (formats
// of other programs) or that are opened only if the file itself is named; or it has no file of a known format. Leaves
// the search for checkpoints to folder_contents.hpp.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/error.hpp"

namespace troupe::checkpoint {

/// Describes weights in a folder that are not read, such as "'tf_model.h5', weights of Keras or TensorFlow, which are
/// not read", and how to proceed; nothing if no file in the folder has the name of such weights.
std::optional<std::string> unread_weights_in(const std::filesystem::path& folder);

/// Returns why a folder that no format recognises is not a checkpoint: what it is instead, or which files would
/// identify a checkpoint.
core::error no_checkpoint(const std::filesystem::path& folder);

/// Returns the error for a file that no format recognises.
core::error no_file_of_weights(const std::filesystem::path& file);

}  // namespace troupe::checkpoint
