// Weights in blocks of a few bits, as GGUF files store them: each block has its own scale, some also have a smallest
// value. Owns sizes and arithmetic; leaves the files, and the choice of a format for a tensor, to formats/gguf/.
// Source: ggml's published block layouts; all integers and fp16 values are little-endian.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe::kernels {

/// Layout of the bytes of a block of quantised elements. `d` and `m` are fp16 factors of the block, and q[i] is the
/// integer code of element i. In blocks of 32 elements, byte i of 16 bytes has the lower four bits (the nibbles) of
/// q[i] in its lower half, and those of q[i + 16] in its upper half.
enum class block_format : uint8_t {
  q8_0,  ///< block of 32 elements d * q with int8 q, stored as d, q[32]
  q4_0,  ///< block of 32 elements d * (q - 8), stored as d, then 16 bytes of nibbles
  q4_1,  ///< block of 32 elements d * q + m, stored as d, m, then 16 bytes of nibbles
  q5_0,  ///< block of 32 elements d * (q - 16), stored as d, a bit 4 of each q (32 bits), 16 bytes of nibbles
  q5_1,  ///< block of 32 elements d * q + m, stored as d, m, a bit 4 of each q (32 bits), 16 bytes of nibbles
  /// Block of 8 runs of 32 elements d * s * q - m * t; each run has its scale s and its minimum t, of 6 bits. Stored as
  /// d, m, 12 bytes of s and t, then the nibbles q, two runs in 32 bytes.
  q4_k,
  /// Block of 8 runs of 32 elements d * s * q - m * t; each run has its scale s and its minimum t, of 6 bits. Stored as
  /// d, m, 12 bytes of s and t, 32 bytes of fifth bits of q, then the nibbles, two runs in 32 bytes.
  q5_k,
  /// Block of 16 runs of 16 elements d * s * (q - 32); each run has its scale s, an int8. Stored as 128 bytes with the
  /// lower 4 bits of q, 64 bytes with the upper 2 bits, 16 bytes of s, then d.
  q6_k,
};

/// Returns the number of elements of one block, which are neighbours in a row of the weight.
constexpr uint32_t elements_of(block_format f) { return f >= block_format::q4_k ? 256 : 32; }

/// Returns the number of bytes of one stored block.
constexpr uint32_t bytes_of(block_format f) {
  switch (f) {
    case block_format::q8_0:
      return 34;
    case block_format::q4_0:
      return 18;
    case block_format::q4_1:
      return 20;
    case block_format::q5_0:
      return 22;
    case block_format::q5_1:
      return 24;
    case block_format::q4_k:
      return 144;
    case block_format::q5_k:
      return 176;
    case block_format::q6_k:
      return 210;
  }
  return 0;
}

/// Result of quantise_blocks and dequantise_blocks if every block was converted; otherwise they return the index of a
/// block.
inline constexpr uint64_t no_block = ~uint64_t{0};

/// Converts `blocks` blocks of fp32 values to bytes. Formats of 32 elements round as ggml's reference does, bit for
/// bit; formats of 256 elements search for the scales of least squared error. A scale so small that its reciprocal is
/// infinite counts as 0, a smallest value of -0 as 0. Returns the index of the first block that cannot be converted,
/// else no_block: a block with a value that is not finite, or whose scale is too large for fp16. Later blocks are not
/// written.
uint64_t quantise_blocks(block_format f, const float* in, uint64_t blocks, std::byte* out);

/// Converts `blocks` blocks of fp32 values to bytes with the least squared error weighted by `weights`, one
/// non-negative number for each column of rows of `row_blocks` blocks. Formats of 32 elements are searched for the best
/// scales, too, except q8_0, which is converted without weights. Returns the index of the first block that cannot be
/// converted, else no_block.
uint64_t quantise_blocks_weighted(block_format f, const float* in, const float* weights, uint64_t row_blocks,
                                  uint64_t blocks, std::byte* out);

/// Converts the bytes of `blocks` blocks to fp32 values. Returns the index of the first block whose scale or smallest
/// value is not finite, else no_block.
uint64_t dequantise_blocks(block_format f, const std::byte* in, uint64_t blocks, float* out);

/// Scalar implementations of quantise_blocks and dequantise_blocks, one element at a time, with the same bits; tests
/// compare the SIMD code with them.
uint64_t quantise_blocks_reference(block_format f, const float* in, uint64_t blocks, std::byte* out);
uint64_t dequantise_blocks_reference(block_format f, const std::byte* in, uint64_t blocks, float* out);

}  // namespace troupe::kernels
