// Finds the files of a source, and derives the kind of their content from their names. Reads no content except a data
// set's card.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace troupe::data {

/// Largest number of regular files in one data folder; a folder with more is refused.
inline constexpr uint64_t max_source_files = uint64_t{1} << 20;

/// How a file is read, by its name, ignoring case and a final `.gz`, `.dz` or `.zst`: `.bin` holds tokens; each object
/// of a `.jsonl`, `.jsonlines`, `.ndjson` or `.json`, each row of a `.parquet` or of an Arrow file or stream (`.arrow`,
/// `.arrows`, `.ipc`, `.feather`), each sample of a `.tar` or `.tgz` and of MosaicML's `.mds` is a document; each row
/// of a `.npy` is a sample of tokens (only as `input_ids`, data/formats/objects.hpp); any other file is one text.
enum class source_kind : uint8_t { text, json_lines, tokens, parquet, arrow, tar, mds, array };

/// True for kinds whose files hold several texts under a key (JSON lines) or in a column (rows).
inline bool has_keys(source_kind kind) {
  return kind != source_kind::text && kind != source_kind::tokens && kind != source_kind::array;
}

bool is_packed(const std::filesystem::path& path);  ///< true for the extensions .gz, .dz, .tgz and .zst
/// Returns the kind by the file's extension; an extension of compression, such as .gz, is ignored.
source_kind kind_of(const std::filesystem::path& path);
/// Returns the extension of a file name in lower case; an extension for compression, such as .gz, is ignored.
std::string ending_of(const std::filesystem::path& path);

/// True for `NAME.bin.json` next to a `NAME.bin` or a packed one, and for `NAME.idx` next to a `NAME.bin`: the file
/// describes the tokens (data/token_file.hpp, data/formats/indexed_pair.hpp) and is not a text itself.
bool describes_tokens(const std::filesystem::path& path);

/// True for files that writers add to rows and that are not text: `dataset_info.json` and `state.json` of Hugging
/// Face's `datasets` next to an Arrow file, `index.json` of MosaicML's next to a `.mds`.
bool describes_rows(const std::filesystem::path& path);

/// Returns the path of the array with the column `column` (labels, attention_mask) of the samples in the NumPy array
/// `tokens`; empty if there is none. Its name has `column` in place of `input_ids`; for an array without that in its
/// name, `column` in place of `tokens`, or `_` and `column` at its end. Refused: two such arrays.
core::result<std::filesystem::path> array_beside(const std::filesystem::path& tokens, const std::string& column);

/// True for an array that holds the labels or the attention mask of another array in its folder (array_beside).
bool completes_array(const std::filesystem::path& path);

/// A file of a data folder that is not read as data, or a shard that is missing in the folder, with the reason for the
/// message to the user.
struct left_out_file {
  std::filesystem::path path;
  std::string why;  ///< reason in a few words, such as "card or licence"
};

/// The files that a source names, and the files of its folder that are left out.
struct source_listing {
  std::vector<std::filesystem::path> files;
  std::vector<left_out_file> left_out;  ///< files of the folder that are not trained on, with the reasons
};

/// Returns the files of a source: `path` itself, or `path`.bin if only that and its `path`.idx exist, or all regular
/// files below the folder, sorted by path, without hidden files (a name that begins with a dot) and files that writers
/// add to rows (`_metadata`, `_common_metadata`, `_SUCCESS`). Rows next to a list of shards: the files of the list
/// (data/formats/shard_lists.cpp). A folder that is a data set's repository: the files of its train split
/// (data/formats/repository.cpp). A data set's folder of Hugging Face's cache: the snapshot that `refs/main` names.
/// Refused: a link out of the folder, except links of Hugging Face's cache; such a cache inside the folder; a folder of
/// `datasets` with several splits; one file in two forms; a folder of which everything is left out. Links that stay
/// inside are skipped, because their targets are read anyway.
core::result<source_listing> source_files(const std::filesystem::path& path);

}  // namespace troupe::data
