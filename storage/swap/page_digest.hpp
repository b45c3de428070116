// The digest of one page of a swap file: XXH3-64 of its 4096 bytes. Owns only the arithmetic; `swap_file.hpp` stores
// digests and compares them with the pages read. Detects accidents (flipped bits, lost and torn writes), not forgery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::storage {

/// Size of a page of a swap file in bytes. Offsets, lengths and addresses of transfers are multiples of this size.
inline constexpr uint64_t swap_page_bytes = 4096;

/// Returns the digest of a page with seed 0, equal to the digest of `xxhsum -H3`.
uint64_t page_digest(std::span<const std::byte, swap_page_bytes> page);

/// Computes the digest of every page of `pages`, whose size must be a multiple of the page size, and stores the digests
/// in `into`, in order.
void page_digests(std::span<const std::byte> pages, std::span<uint64_t> into);

}  // namespace troupe::storage
