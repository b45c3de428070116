// Finds the pages of one column of text by a Parquet file's footer. Owns the footer's form; leaves pages to
// data/formats/columns/parquet.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "data/formats/columns/block_codec.hpp"

namespace troupe::data {

/// Longest footer that is read, in bytes.
inline constexpr uint64_t max_parquet_footer_bytes = uint64_t{64} << 20;

struct parquet_chunk {  ///< the values of one column in one row group of the file (a column chunk)
  block_codec codec = block_codec::none;
  uint64_t begin = 0, bytes = 0;  ///< byte range of the chunk's pages in the file, checked to be inside the file
  uint64_t values = 0;            ///< number of values, nulls included
};

struct parquet_column {
  std::vector<parquet_chunk> chunks;
  /// Level of a value that is present; a lower level means that the value or a structure around it is null.
  uint8_t max_definition = 0;
};

/// A column, or a part of one, in the tree of a table's schema. A node without members is a leaf, which has values.
struct parquet_node {
  std::string name;
  bool is_optional = false, is_repeated = false;
  bool is_list = false, is_map = false, is_decimal = false;
  uint8_t definition = 0;  ///< level of definition from which the node is present
  uint8_t repetition = 0;  ///< level of repetition with which a further item of the nearest repeated node begins
  int64_t type = -1;       ///< a leaf's physical type, by Parquet's number
  const char* kind = "";   ///< a leaf's type, for messages
  size_t leaf = 0;         ///< number of a leaf among those of the table's columns
  std::vector<parquet_node> members{};
};

struct parquet_row_group {
  uint64_t rows = 0;
  std::vector<parquet_chunk> chunks;  ///< [leaf]: the leaf's values
};

/// Some columns of a table, with all that is in them.
struct parquet_table {
  std::vector<parquet_node> columns;
  std::vector<parquet_row_group> groups;
};

/// Returns those of the columns `columns` that `file` has at the top of its schema. Refused with the file's name: as
/// read_parquet_footer(), and a file with none of the columns.
core::result<parquet_table> read_parquet_table(const core::source_file& file, const std::vector<std::string>& columns);

/// Returns the column `key` of `file`; a column inside structures is named by all of them, with dots. Refused with the
/// file's name: a file that is not Parquet, a broken or encrypted one, a missing column, a column that is not text, a
/// codec that is not supported.
core::result<parquet_column> read_parquet_footer(const core::source_file& file, const std::string& key);

}  // namespace troupe::data
