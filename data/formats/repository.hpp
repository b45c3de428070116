// Chooses the files of a folder that is a data set's repository of Hugging Face's hub: rows in files, splits by their
// names, a card and a licence next to them. Owns which files are trained on: the train split, chosen as `datasets`
// does.
#pragma once

#include <filesystem>

#include "core/error.hpp"
#include "data/formats/files.hpp"

namespace troupe::data {

/// Returns which of `listed.files`, which are below `folder`, are trained on; `listed.left_out` stays. The folder is a
/// repository if any file holds rows or objects, or if its README.md begins with a card's metadata; else all files are
/// taken, or, if all but cards and licences name their splits, the train split. Left out: side files
/// (data/formats/side_files.hpp); card, licence and descriptions of the data; files of other splits, by the card's
/// `configs` or by their names (`data/test-00000-of-00001.parquet`, `validation/part.jsonl`); texts next to rows, if
/// there is a card or `.gitattributes`. Refused (bad_input): several configurations without one default, data files of
/// the card that do not exist, splits without one for training, rows in several formats.
core::result<source_listing> training_files_of(const std::filesystem::path& folder, source_listing listed);

}  // namespace troupe::data
