// Lists all formats of checkpoints that Troupe opens, and finds the format of a path. A new format requires a
// source_format, defined in the format's own folder, and an entry in all_formats. Leaves folders of several checkpoints
// to folder_contents.hpp.
#pragma once

#include <array>
#include <filesystem>
#include <string>

#include "checkpoint/commit/format.hpp"
#include "checkpoint/compressed/format.hpp"
#include "checkpoint/deepspeed/format.hpp"
#include "checkpoint/distributed/format.hpp"
#include "checkpoint/gguf/format.hpp"
#include "checkpoint/source/source_format.hpp"
#include "checkpoint/source/torch_format.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// All formats. If several formats recognise a path, the first one in this list that is certain of it is chosen, or
/// else the first one that finds it possible (see `likeness`).
inline constexpr std::array all_formats{&troupe_format,       &universal_format, &distributed_format, &deepspeed_format,
                                        &hugging_face_format, &torch_format,     &gguf_format};

/// Returns the format of a folder that contains exactly one checkpoint; null if the folder is of no format. Returns an
/// error (io) if the folder cannot be listed.
core::result<const source_format*> format_of_folder(const std::filesystem::path& folder);

/// Returns the format of a file or of the shards that an index lists. Refused: a file of no format, a Git LFS pointer,
/// an index that read_weights_index() refuses.
core::result<const source_format*> format_of_file(const std::filesystem::path& file);

/// Returns the files by which folders of all formats are recognised, for the error message about a folder that has none
/// of them: "neither manifest.json nor latest (Troupe), no ... and no ...".
std::string lacking_signs();

}  // namespace troupe::checkpoint
