// Reads tars of samples in WebDataset's form: files that share a name up to its first dot belong together. Owns the
// form of a tar and which of a sample's files is its text.
#pragma once

#include <string>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "data/formats/row_visit.hpp"

namespace troupe::data {

/// Longest text of a sample, and largest file that may hold one, in bytes.
inline constexpr uint64_t max_tar_text_bytes = uint64_t{64} << 20;

/// Passes the text of each sample to `visit`: its file with the extension `key` (`txt` too if the key is `text`), else
/// the string under `key` in its `.json`, where null means no text; the case of extensions is ignored. Skipped: files
/// `__NAME__`, files in such folders, and samples of such a name without a text file. Supported: ustar, GNU's long
/// names, pax paths and sizes. Refused with file and member: a broken or truncated tar, data after the end mark, a
/// sample without text, sparse members.
core::result<void> read_tar(const core::source_file& file, const std::string& key, const row_visit& visit);

}  // namespace troupe::data
