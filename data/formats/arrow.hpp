// Arrow IPC files and streams: one column of text, row by row. Owns messages, batches and dictionaries; the schema is
// data/formats/arrow_schema.hpp's.
#pragma once

#include <string>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "data/formats/row_visit.hpp"

namespace troupe::data {

/// No message's description is longer.
inline constexpr uint64_t max_arrow_message_bytes = uint64_t{64} << 20;
/// No row's text is longer.
inline constexpr uint64_t max_row_bytes = uint64_t{64} << 20;

/// Gives the texts of column `key`; a null is no row, nor is one that names a null of its dictionary. A file is read as
/// the stream that it contains. Buffers that are not packed are read a piece at a time; of others those of one batch
/// are in memory, each at most max_block_bytes, as is a dictionary with the ends of its words, and all that views name
/// together. Refused with file and byte: what is broken or lies, and by name what is not read.
core::result<void> read_arrow(const core::source_file& file, const std::string& key, const row_visit& visit);

}  // namespace troupe::data
