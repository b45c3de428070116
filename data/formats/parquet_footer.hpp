// What a Parquet file's footer says of one column of text: where its pages lie. Owns the footer's form; pages are
// data/formats/parquet.hpp's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "data/formats/block_codec.hpp"

namespace troupe::data {

/// No footer is longer.
inline constexpr uint64_t max_parquet_footer_bytes = uint64_t{64} << 20;

struct parquet_chunk {  ///< the column's part of one row group
  block_codec codec = block_codec::none;
  uint64_t begin = 0, bytes = 0;  ///< of its pages in the file, which they lie in
  uint64_t values = 0;            ///< nulls among them
};

struct parquet_column {
  std::vector<parquet_chunk> chunks;
  uint8_t max_definition = 0;  ///< the level of a value that is there; below it something on the way is null
};

/// The column `key` of `file`; a column inside structures is named by all of them, with dots. Refused with the file's
/// name: no Parquet, broken, encrypted, no such column, one that is no text, a codec that is not read.
core::result<parquet_column> read_parquet_footer(const core::source_file& file, const std::string& key);

}  // namespace troupe::data
