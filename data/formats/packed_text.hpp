// Recognises, by its first bytes, content that contradicts a file's name: packed, binary or in another encoding.
#pragma once

#include <filesystem>

#include "core/error.hpp"
#include "core/source_file.hpp"

namespace troupe::data {

/// Number of bytes at the beginning of a text that are searched for bytes that no text contains, such as 0.
inline constexpr uint64_t searched_text_bytes = uint64_t{1} << 16;

/// Refuses content that contradicts the name. `path` is the name of the file whose content, expanded, is `file`.
/// Refused (bad_input), naming the format and the remedy: a pointer of git-lfs, whatever the name; known other formats
/// in a file that is text, JSON or tokens by its name; in a text also UTF-16, UTF-32 and zero bytes, a table of
/// comma-separated values, and JSON lines; in tokens a page in HTML. A file of tokens without description begins like
/// another format by chance once in 2^32 files.
core::result<void> refuse_other_content(const std::filesystem::path& path, const core::source_file& file);

}  // namespace troupe::data
