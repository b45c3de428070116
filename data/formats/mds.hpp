// Reads shards of MosaicML's streaming data sets (`shard.00000.mds`): samples of columns. Owns the file's form; returns
// the texts of one column.
#pragma once

#include <string>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "data/formats/row_visit.hpp"

namespace troupe::data {

/// Largest number of bytes of a shard's description of its columns, and (the next constant) of one sample.
inline constexpr uint64_t max_mds_description_bytes = uint64_t{1} << 20;
inline constexpr uint64_t max_mds_sample_bytes = uint64_t{64} << 20;

/// Passes the text of each sample's column `key`, which must be of type `str`, to `visit`. Errors (bad_input, limit)
/// name the file and the sample's number.
core::result<void> read_mds(const core::source_file& file, const std::string& key, const row_visit& visit);

}  // namespace troupe::data
