// Reads and writes small files: a file is complete or absent, and a key is readable by its owner only.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace troupe::net {

enum class readers : uint8_t { all, owner };  ///< users that may read a file: all (mode 0644), or its owner (mode 0600)
enum class existing : uint8_t { stays, is_replaced };

/// Writes a temporary file in the folder of `path` and then gives it the name. Errors: bad_input, if a file exists that
/// is to stay; io, no_space.
core::result<void> write_whole_file(const std::filesystem::path& path, std::string_view text, readers who,
                                    existing other);
/// Reads a file of at most 1 MiB. Errors: bad_input; for a key (`readers::owner`) also if others may read it.
core::result<std::string> read_whole_file(const std::filesystem::path& path, readers who);

}  // namespace troupe::net
