// Chooses the reader for a file with rows (Parquet, Arrow, tar, MosaicML) by its kind, and limits the total size of its
// texts.
#pragma once

#include <string>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "data/formats/files.hpp"
#include "data/formats/row_files.hpp"

namespace troupe::data {

/// True for kinds that read_rows() reads.
bool has_rows(source_kind kind);

/// Smallest number of bytes by which a row, even without text, counts towards the limit of text: the memory for the
/// start of its document.
inline constexpr uint64_t least_row_bytes = 8;

/// Passes the text under `key` of each row to `visit`, and subtracts its bytes from `bytes_left`. Refused (limit): more
/// text than `bytes_left`, which a small file with repeated values can contain; a row counts as least_row_bytes at
/// least. Also returns every error of the reader, with the file's name.
core::result<void> read_rows(source_kind kind, const core::source_file& file, const std::string& key,
                             uint64_t& bytes_left, const row_visit& visit);

}  // namespace troupe::data
