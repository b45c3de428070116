// Reads and writes small files. A written file appears whole or not at all; a key file is readable by its owner only.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace troupe::net {

enum class readers : uint8_t { all, owner };  ///< users that may read a file: all (mode 0644), or its owner (mode 0600)
enum class existing : uint8_t { stays, is_replaced };

/// Writes a temporary file in the folder of `path` and then renames it to `path`. Errors: bad_input, if `path` exists
/// and `other` is existing::stays; io, no_space.
core::result<void> write_whole_file(const std::filesystem::path& path, std::string_view text, readers who,
                                    existing other);
/// Reads a file of at most 1 MiB. Errors: bad_input, also if `who` is readers::owner and other users may read the file;
/// io.
core::result<std::string> read_whole_file(const std::filesystem::path& path, readers who);

}  // namespace troupe::net
