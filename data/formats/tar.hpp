// Tars of samples as WebDataset has them: files that share a name up to its first dot belong together. Owns the form of
// a tar and which of a sample's files is its text.
#pragma once

#include <string>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "data/formats/row_visit.hpp"

namespace troupe::data {

/// No text of a sample is longer, nor a file that may hold one.
inline constexpr uint64_t max_tar_text_bytes = uint64_t{64} << 20;

/// Gives the text of each sample: its file with the ending `key` (`txt` too where the key is `text`), else the string
/// under `key` in its `.json`, where a null is no text; capitals in endings do not count. Passed over: files
/// `__NAME__`, what lies in such folders, and samples of such a name without a text file. Read: ustar, GNU's long
/// names, pax paths and sizes. Refused with file and member: what is broken or cut off, a sample without text, sparse
/// members.
core::result<void> read_tar(const core::source_file& file, const std::string& key, const row_visit& visit);

}  // namespace troupe::data
