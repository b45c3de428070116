// Reads JSON lines and JSON arrays: one object for each document, its text under one key. Owns how such an object is
// read and refused. The file's first character, not its name, decides which of the two it is.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "data/formats/text_window.hpp"

namespace troupe::data {

/// Longest line, or element of an array, that is read, in bytes.
inline constexpr uint64_t max_json_line_bytes = uint64_t{64} << 20;

/// Calls `visit` with the text of each object and with the byte after it; an error of `visit` ends the reading. The
/// objects are the elements of an array, or else the lines (a line ends at \n, \r or both). Blank lines and objects
/// whose `key` is null are not documents; the last value of a repeated key is used. NaN, Infinity and numbers beyond
/// the range of a double are read as in Python, because its writers produce them. Errors (bad_input, with `file`:line
/// or the number of the element): broken JSON, a value that is not an object, an object without `key` or without a
/// string there.
core::result<void> read_json_lines(text_window&& content, const std::string& file, const std::string& key,
                                   const std::function<core::result<void>(std::string_view, uint64_t)>& visit);

/// A line or an element of an array, whose text is not parsed yet.
struct json_row {
  std::string_view text;
  std::string_view place;  ///< where it is, for errors: `FILE:LINE`, or `FILE: element N`
  uint64_t end = 0;        ///< byte of the file after it
  bool is_element = false;  ///< true: an element of an array; false: a line
};

/// Returns `object` with null in place of each NaN outside of its strings: Python's writers, such as pandas, mark absent
/// values with it, and JSON does not have it.
std::string with_nulls(std::string_view object);

/// Calls `visit` with each line that is not blank, or with each element of an array; an error of `visit` ends the
/// reading. Errors (bad_input): a row that is too long, and an array without an end.
core::result<void> read_json_rows(text_window&& content, const std::string& file,
                                  const std::function<core::result<void>(const json_row&)>& visit);

}  // namespace troupe::data
