// Knows weights that no reader takes from a folder by themselves: other programs' formats, and files that are read by
// their own name alone. Whoever finds no weights in a folder asks here before it calls the folder empty.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace troupe::checkpoint {

/// What lies in a folder beside or instead of weights that are read, such as "'tf_model.h5', weights of Keras or
/// TensorFlow, which are not read", and how to go on; nothing where no name in the folder is one of weights.
std::optional<std::string> unread_weights_in(const std::filesystem::path& folder);

}  // namespace troupe::checkpoint
