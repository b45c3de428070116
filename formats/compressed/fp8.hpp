// Reads a Hugging Face folder whose linear weights are 8-bit floating-point numbers with scales for blocks of rows and
// columns, as DeepSeek publishes them (quant_method fp8), as a tensor_source of decoded values. Owns which tensor
// scales which; leaves the arithmetic to decompressed.hpp.
#pragma once

#include "core/error.hpp"
#include "formats/compressed/scheme.hpp"
#include "formats/source/tensor_source.hpp"
#include "formats/weights/hugging_face.hpp"

namespace troupe::formats {

/// Returns the source with decoded values for each E4M3 matrix `M.weight` of `stored`, in the type of its scales. The
/// scales are `M.weight_scale_inv` or `M.weight_scale`; despite the first name both are factors of the codes, for the
/// whole weight, for each row or for each block. Scales and the ranges of activations are left out. Returns an error
/// that names the tensor if scales are missing or of another type or shape, or codes are not a matrix.
core::result<tensor_source> fp8_source(stored_tensors stored, const scale_blocks& blocks);

}  // namespace troupe::formats
