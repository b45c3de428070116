// Quantises one block of 32 elements by searching for the scale, or the scale and offset, with the least squared error.
// The faster functions of block_formats.hpp compute scale and offset from the largest elements instead. Every sum has a
// fixed order, so the bits are the same on all processors.
#pragma once

#include <cstddef>

#include "kernels/compress/block_formats.hpp"

namespace troupe::kernels {

/// Quantises a block to q4_0, q4_1, q5_0 or q5_1. The non-negative `weights` weight the error of each element. Returns
/// false if a value is not finite or a scale or offset does not fit fp16.
bool quantise_searched(block_format f, const float* in, const float* weights, std::byte* out);
/// Scalar implementation of quantise_searched, with the same bits; tests compare the SIMD code with it.
bool quantise_searched_reference(block_format f, const float* in, const float* weights, std::byte* out);

}  // namespace troupe::kernels
