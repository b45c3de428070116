// Finds columns in the schema of an Arrow stream, one of text or several of any nesting: where their buffers are in a
// batch. Owns the traversal of fields; leaves batches to arrow.cpp and arrow_rows.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

/// Kinds of values that rows of several fields are made of.
enum class arrow_kind : uint8_t { null, integer, floating, boolean, text, view, list, fixed_list, structure };

/// A field of such rows: its place in each batch, and its members.
struct arrow_field {
  std::string name;
  arrow_kind kind = arrow_kind::null;
  uint8_t width = 0;                                      ///< bytes of a number, or of the offset of a text or a list
  bool is_signed = true;                                  ///< true: an integer has a sign
  uint64_t list_items = 0;                                ///< number of items of each list of a fixed_list
  uint64_t node = 0, first_buffer = 0, views_before = 0;  ///< as in arrow_column
  std::vector<arrow_field> members;                       ///< members of a structure; the items of a list
};

/// Returns the columns of a schema whose names are in `columns`, in the order of the schema. Errors (bad_input),
/// without a file's name: none of the columns; two of one name; values that are not read, such as dates, maps and
/// dictionaries; a column after one whose buffers are unknown.
core::result<std::vector<arrow_field>> find_arrow_fields(const flat_table& schema,
                                                         const std::vector<std::string>& columns, int16_t version);

}  // namespace troupe::data
