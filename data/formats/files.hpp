// Which files a source is made of, and what their names say about their content. Reads no content.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "core/error.hpp"

namespace troupe::data {

/// Most regular files below one data folder; more are refused.
inline constexpr uint64_t max_source_files = uint64_t{1} << 20;

/// The name says how a file is read, a last `.gz` or `.dz` aside: `.bin` holds tokens; each line of a `.jsonl`, each
/// row of a `.parquet` or of an Arrow file or stream (`.arrow`, `.arrows`, `.ipc`, `.feather`) and each sample of a
/// `.tar` or
/// `.tgz` is a document; everything else is one text.
enum class source_kind : uint8_t { text, json_lines, tokens, parquet, arrow, tar };

bool is_packed(const std::filesystem::path& path);       ///< by its ending: .gz, .dz or .tgz
source_kind kind_of(const std::filesystem::path& path);  ///< by its ending, that of compression aside

/// True for `NAME.bin.json` or `NAME.idx` beside a `NAME.bin`: it says what that holds (data/token_file.hpp,
/// data/formats/indexed_pair.hpp) and is no text itself.
bool describes_tokens(const std::filesystem::path& path);

/// True for `dataset_info.json` and `state.json` beside an Arrow file: what `save_to_disk` of Hugging Face's `datasets`
/// says of it, and no text itself.
bool describes_rows(const std::filesystem::path& path);

/// `path` itself, or `path`.bin where only that and its `path`.idx exist, or all regular files below the folder, sorted
/// by path; not those that are hidden (a name that begins with a dot) or that writers leave beside their rows
/// (`_metadata`, `_common_metadata`, `_SUCCESS`). Refused: a link out of the folder, but for those of Hugging Face's
/// cache, and a folder of `datasets` with several splits. Links that stay inside are passed over, as what they name is
/// read anyway.
core::result<std::vector<std::filesystem::path>> source_files(const std::filesystem::path& path);

}  // namespace troupe::data
