// How the texts of a file with rows come out of its reader, whatever the file's format.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>

#include "core/error.hpp"

namespace troupe::data {

/// Called with the text of each row in turn, good until it returns, and with the byte that the reading has come to;
/// without a text where the reader only works: once in a while, so that it can be ended. What it refuses ends the
/// reading.
using row_visit = std::function<core::result<void>(std::optional<std::string_view> text, uint64_t byte)>;

/// Readers call without a text at least as often as they have taken so many rows, words or members, nulls among them.
inline constexpr uint64_t rows_between_calls = uint64_t{1} << 16;

}  // namespace troupe::data
