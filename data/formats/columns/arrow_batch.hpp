// Describes one batch of an Arrow stream: the number of a column's rows, and the positions of its buffers in the file.
// The messages of the stream are in arrow.cpp.
#pragma once

#include <cstdint>

#include "core/source_file.hpp"
#include "data/formats/columns/arrow_schema.hpp"
#include "data/formats/columns/column_buffer.hpp"

namespace troupe::data {

class arrow_batch {
 public:
  /// Describes the batch with the message `header`, whose body is the bytes [body_begin, body_begin + body_bytes) of
  /// the file.
  arrow_batch(const core::source_file& file, const flat_table& header, uint64_t body_begin, uint64_t body_bytes)
      : file_(file), header_(header), body_begin_(body_begin), body_bytes_(body_bytes) {}

  // The functions of a batch fail if its description is inconsistent; their errors name no file and no message.
  /// Returns the number of values of a node: rows of the batch, or items of its lists.
  [[nodiscard]] core::result<uint64_t> values(uint64_t node) const;
  /// Returns the number of values of a column's node, which is the number of the batch's rows.
  [[nodiscard]] core::result<uint64_t> rows(uint64_t node) const;
  [[nodiscard]] core::result<column_buffer> buffer(uint64_t index) const;

  struct place {
    uint64_t first_buffer = 0;
    uint64_t text_buffers = 0;  ///< number of the buffers that contain texts, for a column of string views; else 0
  };
  /// Returns the index of a column's first buffer in this batch, and the number of its text buffers. `first_buffer`:
  /// the index without the text buffers of the `views_before` columns of views before it. `views`: the batch holds the
  /// column's string views, not indices of a dictionary.
  [[nodiscard]] core::result<place> find(uint64_t first_buffer, uint64_t views_before, bool views) const;

  /// Returns the approximate byte of the file at which row `row` of `rows` is stored.
  [[nodiscard]] uint64_t byte_of(uint64_t row, uint64_t rows) const {
    return body_begin_ + static_cast<uint64_t>(double(body_bytes_) * double(row) / double(rows));
  }

 private:
  const core::source_file& file_;
  flat_table header_;
  uint64_t body_begin_, body_bytes_;
};

}  // namespace troupe::data
