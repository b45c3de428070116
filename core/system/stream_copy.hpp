// Copies data that is not read soon without filling the cache, so that concurrent computations keep their data there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace troupe::core {

/// Copies all bytes of `from` to `to`, like memcpy, with stores that neither fetch nor keep the destination's cache
/// lines; fastest if `to` is a multiple of 16. The bytes are visible to every later reader, also to a device.
inline void stream_copy(std::byte* to, std::span<const std::byte> from) {
  size_t done = 0;
#if defined(__SSE2__)
  if (reinterpret_cast<uintptr_t>(to) % sizeof(__m128i) == 0) {
    constexpr size_t stride = 4 * sizeof(__m128i);  // one cache line
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
