// Folders that are a data set as a repository of Hugging Face's hub has it: rows in files, splits by their names, a
// card and a licence beside them. Owns which of the files are trained on: the train split, chosen as `datasets` does.
#pragma once

#include <filesystem>
#include <vector>

#include "core/error.hpp"
#include "data/formats/files.hpp"

namespace troupe::data {

/// `files` lie below `folder`. It is a repository where any of them holds rows or objects, or its README.md begins with
/// a card's metadata; else all files are taken. Left out: card, licence and what describes the data; files of other
/// splits, by the card's `configs` or by their names (`data/test-00000-of-00001.parquet`, `validation/part.jsonl`);
/// texts beside rows, where a card or `.gitattributes` is there. Refused (bad_input): several configurations without a
/// default one, splits none of which is for training, several forms of the rows.
core::result<source_listing> training_files_of(const std::filesystem::path& folder,
                                               std::vector<std::filesystem::path> files);

}  // namespace troupe::data
