// JSON lines: one object a line, its text under one key. Owns how such a line is read and refused.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "data/formats/text_window.hpp"

namespace troupe::data {

/// A longer line is refused.
inline constexpr uint64_t max_json_line_bytes = uint64_t{64} << 20;

/// What a line does whose `key` is null.
enum class null_text : uint8_t { refused, passed_over };

/// Calls `visit` with the text of each line in turn and with the byte behind that line; what it refuses ends the
/// reading. Blank lines are passed over; where a key comes twice, the last counts. bad_input with `file`:line for
/// broken JSON (column too), for a line that is no object, lacks `key` or has no string there.
core::result<void> read_json_lines(text_window&& content, const std::string& file, const std::string& key,
                                   const std::function<core::result<void>(std::string_view, uint64_t)>& visit,
                                   null_text nulls = null_text::refused);

}  // namespace troupe::data
