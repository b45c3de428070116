// The digest of one page of a swap file: XXH3-64 of its 4096 bytes. Owns only the arithmetic; `swap_file.hpp` stores
// digests and compares them with the pages read. Detects accidents (flipped bits, lost and torn writes), not forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::storage {

/// Bytes of a page. Offsets, lengths and addresses of swap file transfers are multiples of it; each page has a digest.
inline constexpr uint64_t swap_page_bytes = 4096;

/// Returns the digest of a page with seed 0, equal to that of `xxhsum -H3`.
uint64_t page_digest(std::span<const std::byte, swap_page_bytes> page);

/// Writes the digest of every page of `pages` (a multiple of the page) to `into`, in order.
void page_digests(std::span<const std::byte> pages, std::span<uint64_t> into);

}  // namespace troupe::storage
