// Finds what is stored at a path that a person names: a file, a checkpoint, several checkpoints, or weights next to
// them. Owns the rules, the same for every command, by which one of several is chosen, and the sentences about the
// others. Reads only names, small text files and first bytes; open_source.hpp opens the chosen one.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "formats/source/source_format.hpp"

namespace troupe::checkpoint {

/// One of the checkpoints that exist in a folder.
struct found_checkpoint {
  std::filesystem::path path;
  std::string name;  ///< path below the searched path: `checkpoint-20`; empty: that path itself
  const formats::source_format* format = nullptr;  ///< format of the checkpoint; null: with_format() finds it
  std::optional<core::error> problem{};            ///< reason why `path` is no checkpoint, or not complete
};

/// The checkpoints in a folder that a person named, in the order in which they are tried, and notes about them.
struct folder_contents {
  /// The checkpoints that may be opened: the chosen one, then older ones, the newest first. Never empty.
  std::vector<found_checkpoint> checkpoints;
  /// Weights without an optimizer's states next to the checkpoints, such as the final model that a trainer leaves.
  std::optional<found_checkpoint> weights;
  /// Sentences about the other checkpoints and weights at the path; empty if there are none.
  std::vector<std::string> notes;
};

/// Finds the checkpoints at `path`. `tag` names a checkpoint of the folder. Without a tag, the file that names the
/// newest checkpoint decides (`latest`, `latest_universal`, `latest_checkpointed_iteration.txt`), or else the number in
/// the folders' names. A folder that is itself a checkpoint with an optimizer's states is the result, as is a folder of
/// weights with no checkpoints below it. If a folder has only the folder `checkpoints` or `checkpoint`, the contents of
/// that folder are the result. The newest of several checkpoints counts as complete if it has the same kinds of files
/// as the one before it. Returns an error (bad_input, io) if nothing at `path` is a checkpoint; the message lists the
/// files that would identify one, or names what the folder is instead (a PEFT adapter).
core::result<folder_contents> look_into(const std::filesystem::path& path,
                                        const std::optional<std::string>& tag = std::nullopt);

/// Returns the checkpoint with its format. If the format is unknown, calls look_into() on the path, repeatedly if
/// necessary, until the format is known. Returns the checkpoint's `problem` as an error if it has one.
core::result<found_checkpoint> with_format(found_checkpoint c);

/// Returns the format of the checkpoint that look_into() chooses.
core::result<const formats::source_format*> recognise(const std::filesystem::path& path);

/// Returns `path`, or the folder `checkpoints` in it if the chosen checkpoint is there.
std::filesystem::path checkpoints_below(const std::filesystem::path& path);

}  // namespace troupe::checkpoint
