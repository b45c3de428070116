// Chooses the files of a folder that are trained on, by their names, the lists beside them and the folder's card. Each
// rule is implemented in a source file of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "data/formats/files.hpp"

namespace troupe::data {

/// Returns which of `listed.files`, which are below `folder`, are trained on; `listed.left_out` stays. The folder is a
/// repository if any file holds rows or objects, or if its README.md begins with a card's metadata; else all files are
/// taken, or, if all but cards and licences name their splits, the train split. Left out: side files
/// (data/formats/side_files.cpp); card, licence and descriptions of the data; files of other splits, by the card's
/// `configs` or by their names (`data/test-00000-of-00001.parquet`, `validation/part.jsonl`); texts next to rows, if
/// there is a card or `.gitattributes`. Refused (bad_input): several configurations without one default, data files of
/// the card that do not exist, splits without one for training, rows in several formats.
core::result<source_listing> training_files_of(const std::filesystem::path& folder, source_listing listed);

bool is_card_or_licence(const std::filesystem::path& path);  ///< true for names such as README.md and LICENSE
bool describes_data(const std::filesystem::path& path);  ///< true for JSON that describes rows, such as croissant.json

/// Moves files of `folder` to `listing.left_out`: backups and unfinished copies (such as `a.jsonl~`, `.bak`, `.tmp`,
/// `.part`, and `.1` if the file without this ending exists); if the folder has rows or tokens, also files whose names
/// begin with an underscore, checksums and logs.
void leave_out_side_files(const std::filesystem::path& folder, source_listing& listing);

/// Refuses two files that are one file in two forms, such as `a.jsonl` and `a.jsonl.gz`, naming both.
core::result<void> refuse_second_forms(const std::vector<std::filesystem::path>& files);

/// Adds to `listing.left_out` the first missing shard of each group `NAME-00000-of-00003` of which some shards are in
/// `listing.files`.
void name_missing_shards(source_listing& listing);

/// Largest list of files that is read, in bytes.
inline constexpr uint64_t max_shard_list_bytes = uint64_t{64} << 20;

/// Removes the lists from `listing.files`, and moves rows next to a list that does not name them to
/// `listing.left_out`. Refused (bad_input): a list that cannot be read, a listed file that is missing, and a shard of
/// MosaicML's with another number of samples than its list states.
core::result<void> keep_listed_shards(source_listing& listing);

enum class split : uint8_t { none, training, held_out };

/// A data set's split (train, test, ...) that a text such as a file's name contains.
struct named_split {
  split kind = split::none;
  std::string name{};  ///< name of the split as in the text, such as "train" or "train_sft"; empty: none
};

/// Returns the split that the words of `text` name; words are separated by anything but letters. A text that names a
/// split for training and another one names none.
named_split split_in(std::string_view text);

/// Returns the split that a path names; a folder's name is preferred to the file's.
named_split split_of(const std::filesystem::path& relative);

/// The parts of a file's name in the form NAME-00000-of-00003.
struct shard_name {
  std::string name;  ///< the part of the file's name that the form calls NAME
  uint64_t number = 0, total = 0;
  size_t digits_at = 0, digits = 0;  ///< position and number of the digits of `number` in the file's name, in bytes
};

/// Returns the parts of a file's name; nullopt if it has another form. A dot or an underscore may follow NAME, too.
std::optional<shard_name> shard_in(std::string_view file_name);

}  // namespace troupe::data
