// The callback by which a reader returns the texts of a file with rows, whatever the file's format.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "core/error.hpp"

namespace troupe::data {

/// Function that a reader calls with the text of each row, valid during the call, and with the byte of the file that
/// the reader has reached. A reader also calls it without a text from time to time, so that reading can be stopped. If
/// the function returns an error, the reading ends.
using row_visit = std::function<core::result<void>(std::optional<std::string_view> text, uint64_t byte)>;

/// Largest number of rows, dictionary words or archive members, nulls included, that a reader processes between two
/// calls of its row_visit.
inline constexpr uint64_t rows_between_calls = uint64_t{1} << 16;

}  // namespace troupe::data
