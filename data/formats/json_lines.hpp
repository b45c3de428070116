// JSON lines and JSON arrays: one object a document, its text under one key. Owns how such an object is read and
// refused; the file's first character says which of the two it is, whatever its name.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "data/formats/text_window.hpp"

namespace troupe::data {

/// A longer line, or element of an array, is refused.
inline constexpr uint64_t max_json_line_bytes = uint64_t{64} << 20;

/// Calls `visit` with the text of each object in turn and with the byte behind it; what it refuses ends the reading.
/// An array is one whose elements are the objects; else each line is one (a line ends at \n, \r or both). Blank lines
/// and objects whose `key` is null are no documents; where a key comes twice, the last counts. NaN, Infinity and
/// numbers beyond the range of a double are read as Python does, since its writers make them. bad_input with
/// `file`:line, or the number of the element, for broken JSON, for what is no object, lacks `key` or has no string
/// there.
core::result<void> read_json_lines(text_window&& content, const std::string& file, const std::string& key,
                                   const std::function<core::result<void>(std::string_view, uint64_t)>& visit);

}  // namespace troupe::data
