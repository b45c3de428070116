// Expands gzip (.gz, and dictzip's .dz, which is gzip with an index in its header) and zstd (.zst) into a nameless
// scratch file. Owns the two decoders; leaves the meaning of the bytes to token_stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "data/scratch_file.hpp"

namespace troupe::data {

/// Bytes of a block, one for packed and one for expanded data, in a round of the expansion.
inline constexpr size_t expand_block_bytes = size_t{1} << 18;

/// Called for each block with the packed bytes read so far and in total; false stops the expansion
/// (error_kind::stopped).
using expand_watch = std::function<bool(uint64_t done, uint64_t bytes)>;

/// Appends the whole expansion of `path`, all its members or frames, with checksums verified, to `sink`. Memory: two
/// blocks and the decoder's window (zstd: at most 128 MiB; a frame that needs more is refused). More than `max_bytes`
/// is error_kind::limit and stops at once; a truncated or corrupt file, or anything but zeros after the last gzip
/// member, is error_kind::bad_input.
core::result<void> expand_packed(const std::filesystem::path& path, uint64_t max_bytes, scratch_file& sink,
                                 const expand_watch& watch = {});

/// Returns the content of `path`: the file itself, or, if it has the name of a packed file, its expansion at the end of
/// `scratch`, which is created in `folder` if it is not open. Returns every error of opening and expanding the file,
/// and of refuse_other_content(). A text or a file of JSON lines with more than `max_bytes` is refused (limit) even if
/// it is not packed; other files that are not packed are read in place or limited by their reader.
core::result<core::source_file> open_expanded(const std::filesystem::path& path, uint64_t max_bytes,
                                              scratch_file& scratch, const std::filesystem::path& folder,
                                              const expand_watch& watch = {});

/// Returns the content of a file of samples that are more than a text: as open_expanded() does, but a NumPy array that
/// is not packed is opened in place, and its reader limits it.
core::result<core::source_file> open_sample_file(const std::filesystem::path& path, uint64_t max_bytes,
                                                 scratch_file& scratch, const std::filesystem::path& folder,
                                                 const expand_watch& watch = {});

}  // namespace troupe::data
