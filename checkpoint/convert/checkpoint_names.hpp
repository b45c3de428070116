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

/// The program whose file names the newest checkpoint of a folder.
enum class latest_writer : uint8_t {
  any,                  ///< `latest`: Troupe's or DeepSpeed's
  deepspeed_universal,  ///< `latest_universal`
  megatron,             ///< `latest_checkpointed_iteration.txt`
};

/// A file that names the newest checkpoint, and the name in it.
struct newest_name {
  std::filesystem::path file;
  latest_writer writer = latest_writer::any;
  std::string name;
};

/// Beginnings of the names of numbered checkpoint folders, in front of the number: transformers' Trainer and
/// Accelerate, torchtitan, and others.
inline constexpr std::array<std::string_view, 7> numbered_stems{"checkpoint-", "checkpoint_", "step-", "step_",
                                                                "epoch-",      "epoch_",      "iter_"};

/// True if `name` can be that of an entry of a folder: not empty, not too long, no path.
bool is_plain_name(std::string_view name);

/// Returns the name of the newest checkpoint in `root`, from the first file in the order of latest_writer; nothing if
/// there is no such file. Errors are those of reading the file; bad_input for a text of Megatron's file that is no
/// number of an iteration.
core::result<std::optional<newest_name>> newest_named_in(const std::filesystem::path& root);

/// Returns the number that follows `stem` in `name`; nothing for any other name.
std::optional<uint64_t> number_behind(std::string_view name, std::string_view stem);

/// Returns the number at the end of `name`, which may be the whole name; nothing if there is none.
std::optional<uint64_t> number_at_end(std::string_view name);

/// Returns the names of folders in `root` that are `stem` and a number, the highest number first.
std::vector<std::string> numbered_in(const std::filesystem::path& root, std::string_view stem);

/// Returns DeepSpeed's tags in a folder: those with numbers first, the highest number first, then those without.
std::vector<std::string> tags_in(const std::filesystem::path& root);

}  // namespace troupe::checkpoint
