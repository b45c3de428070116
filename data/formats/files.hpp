// Which files a source is made of, and what their names say about their content. Reads no content but a data set's
// card.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace troupe::data {

/// Most regular files below one data folder; more are refused.
inline constexpr uint64_t max_source_files = uint64_t{1} << 20;

/// The name says how a file is read, capitals or not, a last `.gz`, `.dz` or `.zst` aside: `.bin` holds tokens; each
/// object of a
/// `.jsonl`, `.ndjson` or `.json`, each row of a `.parquet` or of an Arrow file or stream (`.arrow`, `.arrows`, `.ipc`,
/// `.feather`), each sample of a `.tar` or `.tgz` and of MosaicML's `.mds` is a document; everything else is one text.
enum class source_kind : uint8_t { text, json_lines, tokens, parquet, arrow, tar, mds };

bool is_packed(const std::filesystem::path& path);       ///< by its ending: .gz, .dz, .tgz or .zst
source_kind kind_of(const std::filesystem::path& path);  ///< by its ending, that of compression aside
/// The ending in small letters, that of compression aside.
std::string ending_of(const std::filesystem::path& path);

/// True for `NAME.bin.json` or `NAME.idx` beside a `NAME.bin`: it says what that holds (data/token_file.hpp,
/// data/formats/indexed_pair.hpp) and is no text itself.
bool describes_tokens(const std::filesystem::path& path);

/// True for what writers leave beside rows and what is no text itself: `dataset_info.json` and `state.json` of Hugging
/// Face's `datasets` beside an Arrow file, `index.json` of MosaicML's beside a `.mds`.
bool describes_rows(const std::filesystem::path& path);

/// A file of a folder that is not read as data.
struct left_out_file {
  std::filesystem::path path;
  std::string why;  ///< in a few words: "card or licence"
};

/// The files that a source names, and those of its folder that are left out.
struct source_listing {
  std::vector<std::filesystem::path> files;
  std::vector<left_out_file> left_out;  ///< of a data set's repository: what is not trained on
};

/// `path` itself, or `path`.bin where only that and its `path`.idx exist, or all regular files below the folder, sorted
/// by path; not those that are hidden (a name that begins with a dot) or that writers leave beside their rows
/// (`_metadata`, `_common_metadata`, `_SUCCESS`). Of a folder that is a data set's repository: those of its train split
/// (data/formats/repository.hpp). Refused: a link out of the folder, but for those of Hugging Face's cache, and a
/// folder of `datasets` with several splits. Links that stay inside are passed over, as what they name is read anyway.
core::result<source_listing> source_files(const std::filesystem::path& path);

}  // namespace troupe::data
