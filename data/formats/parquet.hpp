// Parquet files: one column of text, row by row. Owns how pages are read; the footer is
// data/formats/parquet_footer.hpp's.
#pragma once

#include <string>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "data/formats/row_visit.hpp"

namespace troupe::data {

/// Gives the texts of column `key`; a null is no row. In memory are a page, packed and expanded, and a dictionary with
/// the places of its words, each at most max_block_bytes. Read: plain and dictionary pages of version 1 and 2, stored,
/// snappy, gzip, zstd or LZ4_RAW, delta encodings of texts; whatever else the column uses is named. Errors: those of
/// the footer; bad_input with file, row group and byte for pages that lie.
core::result<void> read_parquet(const core::source_file& file, const std::string& key, const row_visit& visit);

}  // namespace troupe::data
