// Reads the lists of files that writers keep beside rows: `state.json` of Hugging Face's `datasets` and `index.json` of
// MosaicML's streaming. Owns which files such a list names; leaves their content to the readers of rows.
#pragma once

#include <cstdint>

#include "core/error.hpp"
#include "data/formats/files.hpp"

namespace troupe::data {

/// Largest list of files that is read, in bytes.
inline constexpr uint64_t max_shard_list_bytes = uint64_t{64} << 20;

/// Removes the lists from `listing.files`, and moves rows next to a list that does not name them to
/// `listing.left_out`. Refused (bad_input): a list that cannot be read, a listed file that is missing, and a shard of
/// MosaicML's with another number of samples than its list states.
core::result<void> keep_listed_shards(source_listing& listing);

}  // namespace troupe::data
