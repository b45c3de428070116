// Reads a Hugging Face folder whose linear weights are 8-bit floating-point numbers with scales for blocks of rows and
// columns, as DeepSeek publishes them (quant_method fp8), as a tensor_source of decoded values. Owns the keys of that
// method and which tensor scales which; leaves the arithmetic to decompressed.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"
#include "formats/weights/hugging_face.hpp"

namespace troupe::formats {

/// Rows and columns that share a scale if the scales are a matrix; 0 if config.json names no blocks.
struct fp8_blocks {
  uint64_t rows = 0, columns = 0;
};

/// Reads the fp8 description in config.json; nothing if it names another method or none. Refused (bad_input): codes
/// other than E4M3, blocks that are not two numbers above 0.
core::result<std::optional<fp8_blocks>> read_fp8_blocks(const std::string& config);

/// Returns the source with decoded values for each E4M3 matrix `M.weight` of `stored`, in the type of its scales. The
/// scales are `M.weight_scale_inv` or `M.weight_scale`; despite the first name both are factors of the codes, for the
/// whole weight, for each row or for each block. Scales and the ranges of activations are left out. Returns an error
/// that names the tensor if scales are missing or of another type or shape, or codes are not a matrix.
core::result<tensor_source> fp8_source(stored_tensors stored, const fp8_blocks& blocks);

}  // namespace troupe::formats
