// Reads Arrow's string views: sixteen bytes for each row, with the text itself if it is short, else with its position
// in one of several buffers. Reads one view at a time; arrow.cpp reads the rows.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string_view>

#include "data/formats/columns/column_buffer.hpp"

namespace troupe::data {

inline constexpr uint64_t view_bytes = 16;

class viewed_texts {  ///< reads the texts of one column of string views in one batch
 public:
  using open_buffer = std::function<core::result<column_buffer>(uint64_t index)>;
  /// Reads texts from `buffers` buffers, each of which `open` opens when its first text is read.
  viewed_texts(uint64_t buffers, open_buffer open) : buffers_(buffers), open_(std::move(open)) {}

  /// Returns the text of a view, valid until the next call and while `view` is. Errors: bad_input for a view outside
  /// the buffers; limit for a text of more than max_row_bytes.
  core::result<std::string_view> text(std::span<const std::byte> view);

 private:
  core::result<column_buffer*> buffer(uint64_t index);
  core::result<std::span<const std::byte>> read(uint64_t index, uint64_t begin, uint64_t bytes);

  uint64_t buffers_;
  open_buffer open_;
  std::map<uint64_t, column_buffer> opened_;
  uint64_t opened_bytes_ = 0;  ///< upper bound of the bytes of memory that all open buffers occupy
};

}  // namespace troupe::data
