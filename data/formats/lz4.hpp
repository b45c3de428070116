// LZ4's blocks and frames, read here: the format is short, and a lying length costs no memory. Source: lz4's
// doc/lz4_Block_format.md and doc/lz4_Frame_format.md (1.6.3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace troupe::data {

/// Appends what a block holds to `out`, which then has at most `bytes`. A copy begins at the `window`-th byte of `out`
/// at the earliest. What is wrong with it; empty: nothing.
std::string expand_lz4_block(std::span<const std::byte> in, uint64_t bytes, size_t window, std::vector<std::byte>& out);

/// The same of one or more frames, with their checksums, into an empty `out`. Refused: dictionaries.
std::string expand_lz4_frames(std::span<const std::byte> in, uint64_t bytes, std::vector<std::byte>& out);

}  // namespace troupe::data
