// Lists all formats of checkpoints that Troupe opens, its own and those of formats/rows.hpp, and finds the format of a
// path. Leaves folders of several checkpoints to folder_contents.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>

#include "checkpoint/commit/format.hpp"
#include "core/error.hpp"
#include "formats/rows.hpp"
#include "formats/source/source_format.hpp"

namespace troupe::checkpoint {

/// All formats: Troupe's own, then foreign_formats, which says how one of several is chosen.
inline constexpr auto all_formats = [] {
  std::array<const formats::source_format*, 1 + formats::foreign_formats.size()> out{&troupe_format};
  std::ranges::copy(formats::foreign_formats, out.begin() + 1);
  return out;
}();

/// Returns the format of a folder that contains exactly one checkpoint; null if the folder is of no format. Returns an
/// error (io) if the folder cannot be listed.
core::result<const formats::source_format*> format_of_folder(const std::filesystem::path& folder);

/// Returns the format of a file or of the shards that an index lists. Refused: a file of no format, a Git LFS pointer,
/// an index that read_weights_index() refuses.
core::result<const formats::source_format*> format_of_file(const std::filesystem::path& file);

/// Returns the files by which folders of all formats are recognised, for the error message about a folder that has none
/// of them: "neither manifest.json nor latest (Troupe), no ... and no ...".
std::string lacking_signs();

}  // namespace troupe::checkpoint
