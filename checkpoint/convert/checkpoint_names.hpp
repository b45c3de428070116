// Finds checkpoints in a folder by names alone: the files that name the newest of them, folders with numbers, and
// DeepSpeed's tags. Owns these names; leaves the choice among the checkpoints to folder_contents.hpp.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::checkpoint {

/// Files that name the newest checkpoint, besides `latest`: DeepSpeed's for universal checkpoints, and Megatron-Core's.
inline constexpr std::string_view universal_latest_name = "latest_universal",
                                  megatron_latest_name = "latest_checkpointed_iteration.txt";

/// Beginnings of the names of numbered checkpoint folders, in front of the number: transformers' Trainer and
/// Accelerate, torchtitan, and others.
inline constexpr std::array<std::string_view, 7> numbered_stems{"checkpoint-", "checkpoint_", "step-", "step_",
                                                                "epoch-",      "epoch_",      "iter_"};

/// True if `name` can be that of an entry of a folder: not empty, not too long, no path.
bool is_plain_name(std::string_view name);

/// Returns the name in `latest` or `latest_universal`: the first line without blanks and a carriage return around it,
/// `./` in front and slashes at the end, which people and scripts leave there.
core::result<std::string> newest_named_in(const std::filesystem::path& file);

/// Returns the folder's name for the text of `latest_checkpointed_iteration.txt`: iter_0000100 for the number 100, or
/// `release`, which Megatron's converters write. Refused: any other text.
core::result<std::string> newest_numbered_in(const std::filesystem::path& file);

/// Returns the number that follows `stem` in `name`; nothing for any other name.
std::optional<uint64_t> number_behind(std::string_view name, std::string_view stem);

/// Returns the number at the end of `name`, which may be the whole name; nothing if there is none.
std::optional<uint64_t> number_at_end(std::string_view name);

/// Returns the names of folders in `root` that are `stem` and a number, the highest number first.
std::vector<std::string> numbered_in(const std::filesystem::path& root, std::string_view stem);

/// Returns DeepSpeed's tags in a folder: those with numbers first, the highest number first, then those without.
std::vector<std::string> tags_in(const std::filesystem::path& root);

}  // namespace troupe::checkpoint
