// Expands gzip (.gz, and dictzip's .dz, which is gzip with an index in its header) and zstd (.zst) into a nameless
// scratch file. Owns the two decoders; what the bytes mean is left to token_stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "data/scratch_file.hpp"

namespace troupe::data {

/// Bytes that one round of the expansion holds on each side of the decoder.
inline constexpr size_t expand_block_bytes = size_t{1} << 18;

/// Called for each block with the packed bytes read and all there are; false stops it (error_kind::stopped).
using expand_watch = std::function<bool(uint64_t done, uint64_t bytes)>;

/// Appends the whole expansion of `path`, all members or frames of it, checksums verified, to `sink`. Two blocks and
/// the decoder's window (zstd: at most 128 MiB, and a frame that needs more is refused) are in memory while it runs.
/// More than `max_bytes` is error_kind::limit and stops at once; a truncated or corrupt file, or anything but zeros
/// after the last member of gzip, is error_kind::bad_input.
core::result<void> expand_packed(const std::filesystem::path& path, uint64_t max_bytes, scratch_file& sink,
                                 const expand_watch& watch = {});

/// What `path` holds: the file itself, or where its name says that it is packed its expansion, at the end of `scratch`.
/// That is made in `folder` where it is not open. Errors: those of both.
core::result<core::source_file> open_expanded(const std::filesystem::path& path, uint64_t max_bytes,
                                              scratch_file& scratch, const std::filesystem::path& folder,
                                              const expand_watch& watch = {});

}  // namespace troupe::data
