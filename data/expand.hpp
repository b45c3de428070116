// Expands gzip (.gz, and dictzip's .dz, which is gzip with an index in its header) into a nameless
// scratch file that is then mapped. Owns zlib; what the bytes mean is left to token_stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

#include "core/error.hpp"
#include "core/mapped_file.hpp"

namespace troupe::data {

/// Bytes that one round of the expansion holds on each side of zlib.
inline constexpr size_t expand_block_bytes = size_t{1} << 18;

/// The whole expansion of `path`, all members of it, checksums verified. At most two blocks are in
/// memory while it runs; the result lies in a scratch file under `scratch` that has no name any more,
/// so that nothing stays behind. More than `max_bytes` is error_kind::limit and stops at once; a
/// truncated or corrupt file, or anything but zeros after the last member, is error_kind::bad_input.
core::result<core::mapped_file> expand_gzip(const std::filesystem::path& path, uint64_t max_bytes,
                                            const std::filesystem::path& scratch);

}  // namespace troupe::data
