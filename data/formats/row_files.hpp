// The readers of files that hold rows: Arrow, Parquet, MosaicML's shards, tars. Each passes the texts of one column or
// key to a callback, and is implemented in a source file of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "core/source_file.hpp"

namespace troupe::data {

/// Function that a reader calls with the text of each row, valid during the call, and with the byte of the file that
/// the reader has reached. A reader also calls it without a text from time to time, so that reading can be stopped. If
/// the function returns an error, the reading ends.
using row_visit = std::function<core::result<void>(std::optional<std::string_view> text, uint64_t byte)>;

/// Largest number of rows, dictionary words or archive members, nulls included, that a reader processes between two
/// calls of its row_visit.
inline constexpr uint64_t rows_between_calls = uint64_t{1} << 16;

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

/// Passes the texts of column `key` to `visit`; a null is not a row. In memory are a page, packed and expanded, and a
/// dictionary with the positions of its words, each at most max_block_bytes. Supported: plain and dictionary pages of
/// version 1 and 2, stored, snappy, gzip, zstd or LZ4_RAW, delta encodings of texts; an error names any other feature
/// of the column. Errors: every error of read_parquet_footer; bad_input with file, row group and byte for inconsistent
/// pages.
core::result<void> read_parquet(const core::source_file& file, const std::string& key, const row_visit& visit);

/// Largest number of bytes of the description of the columns in a MosaicML shard, and of one sample.
inline constexpr uint64_t max_mds_description_bytes = uint64_t{1} << 20;
inline constexpr uint64_t max_mds_sample_bytes = uint64_t{64} << 20;

/// Passes the text of each sample's column `key`, which must be of type `str`, to `visit`. Errors (bad_input, limit)
/// name the file and the sample's number.
core::result<void> read_mds(const core::source_file& file, const std::string& key, const row_visit& visit);

/// Longest text of a tar's sample, and largest file in a tar that may hold one, in bytes.
inline constexpr uint64_t max_tar_text_bytes = uint64_t{64} << 20;

/// Passes the text of each sample to `visit`: its file with the extension `key` (`txt` too if the key is `text`), else
/// the string under `key` in its `.json`, where null means no text; the case of extensions is ignored. Skipped: files
/// `__NAME__`, files in such folders, and samples of such a name without a text file. Supported: ustar, GNU's long
/// names, pax paths and sizes. Refused with file and member: a broken or truncated tar, data after the end mark, a
/// sample without text, sparse members.
core::result<void> read_tar(const core::source_file& file, const std::string& key, const row_visit& visit);

}  // namespace troupe::data
