// What the schema of an Arrow stream says of one column of text: where its buffers stand among those of a batch. Owns
// the walk over the fields; batches are data/formats/arrow.hpp's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "data/formats/flat_reader.hpp"

namespace troupe::data {

struct arrow_column {
  /// Of the column, in each batch: one node, then validity, offsets, texts; or validity, views, buffers with texts.
  uint64_t first_node = 0, first_buffer = 0;
  /// Columns of views that lie before it: batches say how many buffers with texts each has, which first_buffer lacks.
  uint64_t views_before = 0;
  bool view = false;
  bool large = false;                 ///< offsets of 64 bits, not 32
  std::optional<int64_t> dictionary;  ///< its id, where the column holds indices of one
  uint8_t index_bytes = 4;            ///< of one such index
  bool index_signed = true;
};

/// The column `key` of a schema (a flatbuffer's table). Refused, no file named: no such column, one that is no text, or
/// lies behind one whose buffers are not known. `version` is the message's: up to 3 unions have one buffer more.
core::result<arrow_column> find_arrow_column(const flat_table& schema, const std::string& key, int16_t version);

}  // namespace troupe::data
