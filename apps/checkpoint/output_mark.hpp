// Marks the output of `troupe checkpoint`, so that --force replaces nothing else: a folder gets a list of its files, a
// single file gets an entry in its metadata.
#pragma once

#include <filesystem>
#include <string_view>

#include "core/error.hpp"
#include "formats/gguf/metadata.hpp"
#include "formats/safetensors/header.hpp"

namespace troupe::apps {

/// Name of a folder's mark: a first line that names the program, then a line for each file with its bytes and its
/// relative path.
inline constexpr std::string_view mark_file_name = ".troupe-conversion";

/// Returns the metadata that marks a single output file as written by this conversion.
formats::string_map file_mark();
/// Key of the mark in a GGUF file's metadata.
inline constexpr std::string_view gguf_mark_key = "troupe.conversion";
formats::gguf_value gguf_mark();

/// Writes the mark of `folder`, which lists its files.
core::result<void> mark_folder(const std::filesystem::path& folder);

/// Refuses (bad_input) anything that is not exactly the output of a conversion: a link; a folder without a mark, or
/// with a file that the mark does not list with this size; a file without a mark.
core::result<void> check_marked(const std::filesystem::path& out);

}  // namespace troupe::apps
