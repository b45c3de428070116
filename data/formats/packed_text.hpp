// Content that is not what a file's name says: packed, binary or in another encoding, known by its first bytes.
#pragma once

#include <filesystem>

#include "core/error.hpp"
#include "core/source_file.hpp"

namespace troupe::data {

/// So much of a text is searched for what no text has.
inline constexpr uint64_t searched_text_bytes = uint64_t{1} << 16;

/// `path` names the file whose content, expanded, is `file`. Refused (bad_input), naming what it is and what to do: a
/// pointer of git-lfs, whatever the name; of a file that is text, JSON or tokens by its name, known formats of other
/// content; of a text also UTF-16, UTF-32 and zero bytes, and a table of comma-separated values. Tokens without a
/// description that begin like another format by chance are one file in 2^32.
core::result<void> refuse_other_content(const std::filesystem::path& path, const core::source_file& file);

}  // namespace troupe::data
