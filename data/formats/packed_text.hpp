// Texts that are none: packed or binary files whose names do not say so, known by their first bytes.
#pragma once

#include "core/error.hpp"
#include "core/source_file.hpp"

namespace troupe::data {

/// Of a file that is read as text by its name. Refused (bad_input): what zstd, xz, bzip2, LZ4, gzip, zip or 7z packs,
/// Parquet, Arrow; with what to do.
core::result<void> refuse_packed_text(const core::source_file& file);

}  // namespace troupe::data
