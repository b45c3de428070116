// Reads the text of configuration files from disk, without parsing it.
#pragma once

#include <filesystem>
#include <string>
#include <tl/expected.hpp>

namespace troupe::config {

/// Returns the folder at which relative paths of the command line start; "." if that folder no longer exists.
std::filesystem::path current_folder();

/// Returns the file's text, or the reason why it cannot be read. Reads at most `most_file_bytes`, whatever size the
/// file reports.
tl::expected<std::string, std::string> read_text(const std::filesystem::path& file);

}  // namespace troupe::config
