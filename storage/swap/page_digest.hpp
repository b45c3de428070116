// The digest of one page of a swap file: XXH3-64 of its 4096 bytes. Owns the arithmetic alone; `swap_file.hpp`
// keeps digests and compares them with pages that are read. Finds accidents (flipped bits, lost and torn writes), not
// forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::storage {

/// Offsets, lengths and addresses of transfers of swap files are multiples of it; each page has a digest of its own.
inline constexpr uint64_t swap_page_bytes = 4096;

/// Seed 0, as `xxhsum -H3` computes it.
uint64_t page_digest(std::span<const std::byte, swap_page_bytes> page);

/// Of every page of `pages` (a multiple of the page), one after the other into `into`.
void page_digests(std::span<const std::byte> pages, std::span<uint64_t> into);

}  // namespace troupe::storage
