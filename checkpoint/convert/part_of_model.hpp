// Recognises a file that is one of several files of a model: a shard of its weights, or the part that one rank saved.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace troupe::checkpoint {

/// Returns a sentence which states that `file` has only a part of a model; nothing if its name is not that of a part,
/// or if no other part is next to it.
std::optional<std::string> part_of_model(const std::filesystem::path& file);

}  // namespace troupe::checkpoint
