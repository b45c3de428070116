// What `troupe checkpoint` writes says that it did, so that --force replaces nothing else: a folder by a list of its
// files, a single file by a word inside.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "checkpoint/gguf/metadata.hpp"
#include "checkpoint/safetensors/header.hpp"
#include "core/error.hpp"

namespace troupe::apps {

/// In a folder: a first line that names the program, then a line for each file, its bytes and its path from there.
inline constexpr std::string_view mark_file_name = ".troupe-conversion";

/// In a single file.
checkpoint::string_map file_mark();
/// In a GGUF file, among the metadata.
inline constexpr std::string_view gguf_mark_key = "troupe.conversion";
checkpoint::gguf_value gguf_mark();

/// Lists what `folder` holds in its mark.
core::result<void> mark_folder(const std::filesystem::path& folder);

/// Refuses (bad_input) what is not, whole and alone, what a conversion made: a link; a folder without its mark, or with
/// a file that the mark does not list with this size; a file without its word.
core::result<void> check_marked(const std::filesystem::path& out);

}  // namespace troupe::apps
