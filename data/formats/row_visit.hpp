// The callback by which a reader returns the texts of a file with rows, whatever the file's format.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "core/error.hpp"

namespace troupe::data {

/// Called with the text of each row, valid until it returns, and with the byte that the reader has reached. A reader
/// also calls it without a text from time to time, so that it can be stopped. An error that it returns ends the
/// reading.
using row_visit = std::function<core::result<void>(std::optional<std::string_view> text, uint64_t byte)>;

/// Readers call without a text at least once for so many rows, words or members, nulls included.
inline constexpr uint64_t rows_between_calls = uint64_t{1} << 16;

}  // namespace troupe::data
