// Recognises files of a data folder that are not meant as its data: cards, backups, checksums, logs, and a second form
// of the same file. Owns these rules of names; leaves splits to repository.cpp.
#pragma once

#include <filesystem>
#include <vector>

#include "core/error.hpp"
#include "data/formats/files.hpp"

namespace troupe::data {

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

}  // namespace troupe::data
