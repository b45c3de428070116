// Finds one column of text in the schema of an Arrow stream: where its buffers are in a batch. Owns the traversal of
// fields; leaves batches to data/formats/columns/arrow.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "data/formats/columns/flat_reader.hpp"

namespace troupe::data {

struct arrow_column {
  /// Index of the column's first node and buffer in each batch: one node, then validity, offsets, texts; or validity,
  /// views, buffers with texts.
  uint64_t first_node = 0, first_buffer = 0;
  /// Number of columns of views before this column: each batch states how many text buffers each of them has, and
  /// first_buffer does not include those buffers.
  uint64_t views_before = 0;
  bool view = false;
  bool large = false;  ///< true: the offsets of the column's texts have 64 bits; false: 32 bits
  /// Id of the dictionary whose words the column refers to by index; nullopt: the column holds texts.
  std::optional<int64_t> dictionary;
  uint8_t index_bytes = 4;  ///< width in bytes of one index into the dictionary
  bool index_signed = true;
};

/// Returns the column `key` of a schema (a flatbuffer's table). Refused, without a file's name: no such column, a
/// column that is not text, or a column after one whose buffers are unknown. `version` is the message's: unions have
/// one buffer more up to version 3.
core::result<arrow_column> find_arrow_column(const flat_table& schema, const std::string& key, int16_t version);

}  // namespace troupe::data
