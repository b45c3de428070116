// The text of configuration files. Leaves what it means to the readers.
#pragma once

#include <filesystem>
#include <string>
#include <tl/expected.hpp>

namespace troupe::config {

/// Where relative paths of the command line start; "." where even that is gone.
std::filesystem::path current_folder();

/// The file's text, or why it cannot be had. Reads no more than `most_file_bytes`, whatever the file claims to be.
tl::expected<std::string, std::string> read_text(const std::filesystem::path& file);

}  // namespace troupe::config
