// Reads one column of text from Arrow IPC files and streams, row by row. Owns messages, batches and dictionaries;
// leaves the schema to data/formats/arrow_schema.hpp.
#pragma once

#include <string>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "data/formats/row_visit.hpp"

namespace troupe::data {

/// Longest description of a message that is read, in bytes.
inline constexpr uint64_t max_arrow_message_bytes = uint64_t{64} << 20;
/// Longest text of a row that is read, in bytes.
inline constexpr uint64_t max_row_bytes = uint64_t{64} << 20;

/// Passes the texts of column `key` to `visit`; a null is not a row, nor is an index of a null in the dictionary. A
/// file is read as the stream that it contains. Uncompressed buffers are read in pieces; compressed buffers of one
/// batch are in memory, each at most max_block_bytes, as are a dictionary with the ends of its words and all buffers
/// that views refer to, together. Refused with file and byte: broken or inconsistent content, and, by name, features
/// that are not read.
core::result<void> read_arrow(const core::source_file& file, const std::string& key, const row_visit& visit);

}  // namespace troupe::data
