// Chooses the reader of a file with rows, and limits its text.
#pragma once

#include <string>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "data/formats/files.hpp"
#include "data/formats/row_visit.hpp"

namespace troupe::data {

/// True for kinds that read_rows() reads.
bool has_rows(source_kind kind);

/// Bytes that a row without text counts against the limit of text: the memory for the start of its document.
inline constexpr uint64_t least_row_bytes = 8;

/// Passes the text under `key` of each row to `visit`, and takes its bytes from `bytes_left`. Refused (limit): more
/// text than is left, which a small file with repeated values can contain; a row counts as least_row_bytes at least.
/// Also returns every error of the reader, with the file's name.
core::result<void> read_rows(source_kind kind, const core::source_file& file, const std::string& key,
                             uint64_t& bytes_left, const row_visit& visit);

}  // namespace troupe::data
