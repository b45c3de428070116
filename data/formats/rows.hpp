// Files whose texts stand in rows: which reader a file is for, and how much text one may hold.
#pragma once

#include <string>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "data/formats/files.hpp"
#include "data/formats/row_visit.hpp"

namespace troupe::data {

/// True for kinds that read_rows reads.
bool has_rows(source_kind kind);

/// What a row without text counts against the limit of text: where its document begins takes so much memory.
inline constexpr uint64_t least_row_bytes = 8;

/// Gives the text under `key` of each row. More than `max_bytes` of text, which repeated values need few bytes for, is
/// refused (limit); a row counts as least_row_bytes at least. Other errors: those of the readers, with the file's name.
core::result<void> read_rows(source_kind kind, const core::source_file& file, const std::string& key,
                             uint64_t max_bytes, const row_visit& visit);

}  // namespace troupe::data
