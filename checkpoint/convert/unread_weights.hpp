// Recognises weights that no reader takes from a folder by itself: formats of other programs, and files that are read
// only when they are named. Code that finds no weights in a folder calls this before it reports the folder as empty.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace troupe::checkpoint {

/// Describes weights in a folder that are not read, such as "'tf_model.h5', weights of Keras or TensorFlow, which are
/// not read", and how to proceed; nothing if no name in the folder is that of weights.
std::optional<std::string> unread_weights_in(const std::filesystem::path& folder);

}  // namespace troupe::checkpoint
