// Arrow's views of text: sixteen bytes for each row, with the text itself where it is short, else where it lies in one
// of several buffers. Owns the reading of one view; whose rows they are is arrow.cpp's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string_view>

#include "data/formats/column_buffer.hpp"

namespace troupe::data {

inline constexpr uint64_t view_bytes = 16;

class viewed_texts {  ///< of one batch's column
 public:
  using open_buffer = std::function<core::result<column_buffer>(uint64_t index)>;
  /// `buffers`: with texts, which are opened when the first of their texts is read.
  viewed_texts(uint64_t buffers, open_buffer open) : buffers_(buffers), open_(std::move(open)) {}

  /// Good until the next call, and while `view` is. Errors: bad_input, where a view names what is not there; limit, for
  /// a text of more than max_row_bytes.
  core::result<std::string_view> text(std::span<const std::byte> view);

 private:
  core::result<column_buffer*> buffer(uint64_t index);

  uint64_t buffers_;
  open_buffer open_;
  std::map<uint64_t, column_buffer> opened_;
  uint64_t opened_bytes_ = 0;
};

}  // namespace troupe::data
