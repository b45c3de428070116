// Expands LZ4's blocks and frames without its library: the format is short, and a wrong length costs no memory. Source:
// lz4's doc/lz4_Block_format.md and doc/lz4_Frame_format.md (1.6.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace troupe::data {

/// Appends the content of a block to `out`, which may have at most `bytes` bytes afterwards. Copies may not begin
/// before byte `window` of `out`. Returns the error; empty: no error.
std::string expand_lz4_block(std::span<const std::byte> in, uint64_t bytes, size_t window, std::vector<std::byte>& out);

/// Expands one or more frames, with their checksums, into `out`, which must be empty; at most `bytes`. Returns the
/// error, empty if there is none. Refused: dictionaries.
std::string expand_lz4_frames(std::span<const std::byte> in, uint64_t bytes, std::vector<std::byte>& out);

}  // namespace troupe::data
