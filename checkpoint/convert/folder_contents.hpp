// What lies at a path that a person names: a file, one checkpoint, several of which one is the newest, weights beside
// them. Owns the rules by which one of these is taken, the same for every command, and the sentences on what is not.
// Only names and first bytes are looked at; open_source.hpp opens what is taken.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::checkpoint {

/// The formats of checkpoints.
enum class source_format : uint8_t { troupe, deepspeed, universal, distributed, hugging_face, torch, gguf };
/// "a checkpoint of Troupe's", ...: for messages.
std::string_view described(source_format f);

/// A checkpoint of those at a path.
struct found_checkpoint {
  std::filesystem::path path;
  std::string name;                       ///< below the path that was named: `checkpoint-20`; empty: that path itself
  std::optional<source_format> format{};  ///< missing: known once it is looked at by itself
  std::optional<core::error> problem{};   ///< why it is none, or not whole
};

/// Checkpoints of a folder that a person named, in the order in which they are tried, and what is said of them.
struct folder_contents {
  /// The one that is taken, then those that are older, the newest first. Never empty.
  std::vector<found_checkpoint> checkpoints;
  /// Weights without an optimizer's states beside the checkpoints, as a trainer leaves its final model.
  std::optional<found_checkpoint> weights;
  /// Sentences on what is there beside what is taken; empty where nothing is.
  std::vector<std::string> notes;
};

/// `tag` names a checkpoint of the folder; without one the file that names the newest decides (`latest`,
/// `latest_universal`, `latest_checkpointed_iteration.txt`), or else the number in the folders' names. A folder that is
/// a checkpoint with an optimizer's states stands for itself, as does one of weights with no checkpoints deeper; the
/// folders `checkpoints` and `checkpoint` stand for what lies in them. The newest of several is whole where it has the
/// kinds of files that the one before it has. Errors (bad_input, io): nothing there is a checkpoint, with what was
/// looked for; what the folder is instead, where that is known (an adapter of PEFT's).
core::result<folder_contents> look_into(const std::filesystem::path& path,
                                        const std::optional<std::string>& tag = std::nullopt);

/// The format of what look_into() takes first.
core::result<source_format> recognise(const std::filesystem::path& path, const std::optional<std::string>& tag = {});

/// `path`, or the folder `checkpoints` in it where the checkpoint that is taken lies there.
std::filesystem::path checkpoints_below(const std::filesystem::path& path);

}  // namespace troupe::checkpoint
