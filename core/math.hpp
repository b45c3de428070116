// Integer arithmetic of sizes and offsets.
#pragma once

#include <bit>
#include <cstdint>

namespace troupe::core {

/// Granularity, in elements, with which parameters are partitioned among ranks: the elements of a rank begin at a
/// multiple of it, so that no block of the gradient norm, page of a file or SIMD loop has elements of two ranks.
inline constexpr uint64_t partition_grain = 1024;

/// Alignment of each parameter's address in bytes. With a smaller alignment, the bits of a product of an fp32 matrix
/// and a vector would depend on the address.
inline constexpr uint64_t parameter_alignment_bytes = 64;
/// Alignment of a parameter in elements; an element has 2 bytes or more.
inline constexpr uint64_t parameter_grain = parameter_alignment_bytes / 2;

/// Returns n / d rounded up; `d` must not be 0.
constexpr uint64_t div_up(uint64_t n, uint64_t d) { return (n + d - 1) / d; }
/// Returns the least multiple of `to` that is not below `n`; `to` must not be 0.
constexpr uint64_t round_up(uint64_t n, uint64_t to) { return div_up(n, to) * to; }

/// Returns a well mixed 64-bit hash of a 64-bit value (splitmix64); all keyed random streams of Troupe are based on it.
/// Source: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators".
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace troupe::core
