// Copies that are not read soon: past the cache, so that computations beside them keep their data there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace troupe::core {

/// memcpy(to, from) with stores that do not fetch the destination's lines first and do not keep them; `to` best begins
/// at a multiple of 16. Whoever reads it next, a device included, sees all of it.
inline void stream_copy(std::byte* to, std::span<const std::byte> from) {
  size_t done = 0;
#if defined(__SSE2__)
  if (reinterpret_cast<uintptr_t>(to) % sizeof(__m128i) == 0) {
    constexpr size_t stride = 4 * sizeof(__m128i);  // a line
    for (; done + stride <= from.size(); done += stride) {
      const auto* source = reinterpret_cast<const __m128i*>(from.data() + done);
      auto* destination = reinterpret_cast<__m128i*>(to + done);
      for (int k = 0; k < 4; ++k) _mm_stream_si128(destination + k, _mm_loadu_si128(source + k));
    }
    _mm_sfence();
  }
#endif
  std::memcpy(to + done, from.data() + done, from.size() - done);
}

}  // namespace troupe::core
