// How the texts of a file with rows come out of its reader, whatever the file's format.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "core/error.hpp"

namespace troupe::data {

/// Called with the text of each row in turn, good until it returns, and with the byte that the reading has come to;
/// what it refuses ends the reading.
using row_visit = std::function<core::result<void>(std::string_view text, uint64_t byte)>;

}  // namespace troupe::data
