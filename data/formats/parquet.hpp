// Reads one column of text from Parquet files, row by row. Owns the reading of pages; leaves the footer to
// data/formats/parquet_footer.hpp.
#pragma once

#include <string>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "data/formats/row_visit.hpp"

namespace troupe::data {

/// Passes the texts of column `key` to `visit`; a null is not a row. In memory are a page, packed and expanded, and a
/// dictionary with the positions of its words, each at most max_block_bytes. Supported: plain and dictionary pages of
/// version 1 and 2, stored, snappy, gzip, zstd or LZ4_RAW, delta encodings of texts; an error names any other feature
/// of the column. Errors: every error of read_parquet_footer; bad_input with file, row group and byte for inconsistent
/// pages.
core::result<void> read_parquet(const core::source_file& file, const std::string& key, const row_visit& visit);

}  // namespace troupe::data
