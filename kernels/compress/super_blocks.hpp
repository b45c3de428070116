// Quantises one block of 256 elements: runs of 32 or 16 with scales of 6 or 8 bits, and one or two fp16 factors on
// these scales. Owns the search for scales of least squared error; every sum has a fixed order, so the bits are the
// same on all processors. Source: the published layouts of ggml's k-quants; the search is least squares over a grid of
// first scales.
#pragma once

#include <cstddef>

namespace troupe::kernels {

/// Quantises a block of 256 elements. The non-negative `weights`, one per element, weight the squared errors; null: all
/// elements have the same weight. Returns false if a value is not finite or a factor does not fit fp16.
bool quantise_q4_k(const float* in, const float* weights, std::byte* out);
bool quantise_q5_k(const float* in, const float* weights, std::byte* out);
bool quantise_q6_k(const float* in, const float* weights, std::byte* out);

/// Scalar implementations of quantise_q4_k, quantise_q5_k and quantise_q6_k, with the same bits; tests compare the SIMD
/// code with them.
bool quantise_q4_k_reference(const float* in, const float* weights, std::byte* out);
bool quantise_q5_k_reference(const float* in, const float* weights, std::byte* out);
bool quantise_q6_k_reference(const float* in, const float* weights, std::byte* out);

/// Converts a stored block to fp32; returns false if a factor of the block is not finite.
bool dequantise_q4_k(const std::byte* in, float* out);
bool dequantise_q5_k(const std::byte* in, float* out);
bool dequantise_q6_k(const std::byte* in, float* out);

/// Scalar implementations of dequantise_q4_k, dequantise_q5_k and dequantise_q6_k, with the same bits; tests compare
/// the SIMD code with them.
bool dequantise_q4_k_reference(const std::byte* in, float* out);
bool dequantise_q5_k_reference(const std::byte* in, float* out);
bool dequantise_q6_k_reference(const std::byte* in, float* out);

}  // namespace troupe::kernels
