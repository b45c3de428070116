// The compressions that columns of text come in, one block at a time. Owns that an expansion is exactly as long as was
// said, whatever the packed bytes say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/error.hpp"

namespace troupe::data {

enum class block_codec : uint8_t { none, snappy, gzip, zstd, lz4_block, lz4_frame };

/// No block of a column expands to more, and no more of a packed one is held in memory.
inline constexpr uint64_t max_block_bytes = uint64_t{512} << 20;

/// Puts the `bytes` bytes that `packed` holds into `out`, which grows with what is really there. Refused with what is
/// wrong, no file named: broken blocks, those of another length, more than max_block_bytes (limit).
core::result<void> expand_block(block_codec codec, std::span<const std::byte> packed, uint64_t bytes,
                                std::vector<std::byte>& out);

}  // namespace troupe::data
