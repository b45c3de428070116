// Computes CRC-32 eight bytes at a step: table k contains the CRC of a byte followed by k zero bytes (Kounavis and
// Berry, 2005); on processors with carry-less multiplication, 64 bytes at a step.
#include "formats/torch/zip_crc32.hpp"

#include <array>

#include "formats/torch/zip_layout.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace troupe::formats {
namespace {

using tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr tables made() {
  tables t{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t sum = i;
    for (int bit = 0; bit < 8; ++bit) sum = (sum & 1) != 0 ? sum >> 1 ^ 0xEDB88320U : sum >> 1;
    t[0][i] = sum;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t i = 0; i < 256; ++i) t[k][i] = t[k - 1][i] >> 8 ^ t[0][t[k - 1][i] & 0xFF];
  return t;
}

constexpr tables table = made();

/// Continues the CRC `sum`, before its final inversion, over `bytes`, by table lookups.
uint32_t by_table(uint32_t sum, std::span<const std::byte> bytes) {
  size_t at = 0;
  for (; bytes.size() - at >= 8; at += 8) {
    const uint64_t eight = zip::number(bytes, at, 8) ^ sum;
    sum = 0;
    for (size_t k = 0; k < 8; ++k) sum ^= table[7 - k][eight >> (8 * k) & 0xFF];
  }
  for (; at < bytes.size(); ++at) sum = sum >> 8 ^ table[0][(sum ^ std::to_integer<uint32_t>(bytes[at])) & 0xFF];
  return sum;
}

#if defined(__x86_64__)
#define TROUPE_FOLDS __attribute__((target("pclmul,sse4.1")))

constexpr size_t folded_bytes = 64;  ///< number of bytes that by_folding() processes in one step

TROUPE_FOLDS __m128i loaded(const std::byte* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); }

TROUPE_FOLDS __m128i folded(__m128i sum, __m128i factors, __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(sum, factors, 0x00), high = _mm_clmulepi64_si128(sum, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

/// Continues the CRC `sum`, before its final inversion, over `bytes`, by carry-less multiplication, which moves 16
/// bytes forward by a power of x modulo the polynomial (V. Gopal and others, Fast CRC Computation for Generic
/// Polynomials Using PCLMULQDQ, Intel 2009). Folding leaves 16 bytes with the same CRC, which by_table() computes. The
/// size of `bytes` must be a positive multiple of folded_bytes.
TROUPE_FOLDS uint32_t by_folding(uint32_t sum, std::span<const std::byte> bytes) {
  const __m128i four = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);  // x^(4*128-32), x^(4*128+32) mod the polynomial
  const __m128i one = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);   // x^(128-32), x^(128+32) mod the polynomial
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size();
  __m128i a = _mm_xor_si128(loaded(at), _mm_cvtsi32_si128(static_cast<int>(sum)));
  __m128i b = loaded(at + 16), c = loaded(at + 32), d = loaded(at + 48);
  for (at += folded_bytes; at != end; at += folded_bytes) {
    a = folded(a, four, loaded(at));
    b = folded(b, four, loaded(at + 16));
    c = folded(c, four, loaded(at + 32));
    d = folded(d, four, loaded(at + 48));
  }
  std::array<std::byte, 16> rest{};
  _mm_storeu_si128(reinterpret_cast<__m128i*>(rest.data()), folded(folded(folded(a, one, b), one, c), one, d));
  return by_table(0, rest);
}
#endif

}  // namespace

uint32_t crc32(std::span<const std::byte> bytes, uint32_t so_far) {
  uint32_t sum = ~so_far;
#if defined(__x86_64__)
  static const bool has_folding = __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0;
  if (has_folding && bytes.size() >= folded_bytes) {
    const size_t n = bytes.size() / folded_bytes * folded_bytes;
    sum = by_folding(sum, bytes.first(n));
    bytes = bytes.subspan(n);
  }
#endif
  return ~by_table(sum, bytes);
}

}  // namespace troupe::formats
