// Small files that are whole or absent, and keys, which nobody but their owner may read.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace troupe::net {

enum class readers : uint8_t { all, owner };  ///< 0644, 0600
enum class existing : uint8_t { stays, is_replaced };

/// Writes a file beside `path` and gives it the name. Errors: bad_input, where one is there that stays; io, no_space.
core::result<void> write_whole_file(const std::filesystem::path& path, std::string_view text, readers who,
                                    existing other);
/// A file of at most 1 MiB. Errors: bad_input; of a key (`readers::owner`) also where others may read it.
core::result<std::string> read_whole_file(const std::filesystem::path& path, readers who);

}  // namespace troupe::net
