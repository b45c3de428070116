// Integer arithmetic of sizes and offsets.
#pragma once

#include <bit>
#include <cstdint>

namespace troupe::core {

/// Elements of a partition's grain: a block of the norm, a page of a file and a SIMD loop never have two owners.
inline constexpr uint64_t partition_grain = 1024;

/// Every parameter starts at such an address: fp32 matrix x vector products change bits on less.
inline constexpr uint64_t parameter_alignment_bytes = 64;
inline constexpr uint64_t parameter_grain = parameter_alignment_bytes / 2;  ///< in elements, which have 2 bytes or more

/// n / d, rounded up; `d` is not 0.
constexpr uint64_t div_up(uint64_t n, uint64_t d) { return (n + d - 1) / d; }
/// The least multiple of `to`, which is not 0, that is not below `n`.
constexpr uint64_t round_up(uint64_t n, uint64_t to) { return div_up(n, to) * to; }

/// splitmix64: a well mixed 64-bit value of a 64-bit value; the base of every keyed random stream here.
/// Source: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators".
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace troupe::core
