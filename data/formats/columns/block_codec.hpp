// Expands one compressed block of a text column in Parquet or Arrow files. Ensures that an expansion has exactly the
// length that the file states, whatever the packed bytes contain.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/error.hpp"

namespace troupe::data {

enum class block_codec : uint8_t { none, snappy, gzip, zstd, lz4_block, lz4_frame };

/// Largest size of an expanded block, and of a packed block in memory.
inline constexpr uint64_t max_block_bytes = uint64_t{512} << 20;

/// Expands `packed` into `out`, which must become `bytes` bytes long and grows only with the bytes that are really
/// produced. Refused with the reason, without a file's name: broken blocks, blocks of another length, more than
/// max_block_bytes (limit).
core::result<void> expand_block(block_codec codec, std::span<const std::byte> packed, uint64_t bytes,
                                std::vector<std::byte>& out);

}  // namespace troupe::data
