// Computes page digests with xxHash, whose code is compiled in, so that the program needs no library at run time.
#include "storage/swap/page_digest.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace troupe::storage {

uint64_t page_digest(std::span<const std::byte, swap_page_bytes> page) {
  return XXH3_64bits(page.data(), swap_page_bytes);
}

void page_digests(std::span<const std::byte> pages, std::span<uint64_t> into) {
  for (size_t i = 0; i < into.size(); ++i) into[i] = XXH3_64bits(pages.data() + i * swap_page_bytes, swap_page_bytes);
}

}  // namespace troupe::storage
