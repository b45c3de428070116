// Weights in blocks of a few bits, as GGUF files store them: each block has its own scale, some also have a smallest
// value. Owns sizes and arithmetic; leaves the files, and the choice of a format for a tensor, to checkpoint/gguf/.
// Source: ggml's published block layouts; all integers and fp16 values are little-endian.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe::kernels {

/// Layout of a block's bytes; `d` and `m` are fp16, and q[i] is an element's integer.
enum class block_format : uint8_t {
  q8_0,  ///< block of 32 elements d * q with int8 q, stored as d, q[32]
  q4_0,  ///< block of 32 elements d * (q - 8), stored as d, then 16 bytes with q[i] low and q[i + 16] high
  q4_1,  ///< block of 32 elements d * q + m, stored as d, m, nibbles as in q4_0
  q5_0,  ///< block of 32 elements d * (q - 16), stored as d, the fifth bits as 32 bits, nibbles as in q4_0
  q5_1,  ///< block of 32 elements d * q + m, stored as d, m, fifth bits, nibbles as in q4_0
  q4_k,  ///< 8 runs of 32 elements d * s * q - m * t, s and t of 6 bits: d, m, 12 bytes of s and t, nibbles by pairs of
         ///< runs
  q5_k,  ///< 8 runs of 32 elements d * s * q - m * t: d, m, 12 bytes of s and t, 32 of fifth bits, nibbles as in q4_k
  q6_k,  ///< 16 runs of 16 elements d * s * (q - 32): 128 bytes of nibbles, 64 of upper pairs of bits, 16 int8 s, d
};

/// Returns the elements of one block, which are neighbours in a row.
constexpr uint32_t elements_of(block_format f) { return f >= block_format::q4_k ? 256 : 32; }

/// Returns the bytes of one block.
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

/// Result of quantise_blocks and dequantise_blocks if every block was converted.
inline constexpr uint64_t no_block = ~uint64_t{0};

/// Converts `blocks` blocks of fp32 values to bytes. Formats of 32 elements round as ggml's reference does, bit for
/// bit; those of 256 search for the scales of least squared error. A scale so small that its reciprocal is infinite
/// counts as 0, a smallest value of -0 as 0. Returns the first block that cannot be converted, else no_block: a block
/// with a value that is not finite, or whose scale is too large for fp16. Blocks after that one are not written.
uint64_t quantise_blocks(block_format f, const float* in, uint64_t blocks, std::byte* out);

/// Converts blocks to bytes with the least error weighted by `weights`, one non-negative number for each column of rows
/// of `row_blocks` blocks. Formats of 32 elements then search for scales as well, except q8_0, which is converted as by
/// quantise_blocks.
uint64_t quantise_blocks_weighted(block_format f, const float* in, const float* weights, uint64_t row_blocks,
                                  uint64_t blocks, std::byte* out);

/// Converts the bytes of blocks to fp32 values. Returns the first block whose scale or smallest value is not finite,
/// else no_block.
uint64_t dequantise_blocks(block_format f, const std::byte* in, uint64_t blocks, float* out);

/// The scalar twins of quantise_blocks and dequantise_blocks: the same bits, one element at a time.
uint64_t quantise_blocks_reference(block_format f, const float* in, uint64_t blocks, std::byte* out);
uint64_t dequantise_blocks_reference(block_format f, const std::byte* in, uint64_t blocks, float* out);

}  // namespace troupe::kernels
