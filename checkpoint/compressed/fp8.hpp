// A Hugging Face folder whose linear weights are 8-bit floating numbers with scales for blocks of rows and columns, as
// DeepSeek publishes them (quant_method fp8), as a tensor_source with the values that the codes mean. Owns the keys of
// that method and which tensor scales which; the arithmetic is decompressed.hpp's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/source/hugging_face.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Rows and columns that share a scale where the scales are a matrix; zero where config.json names no blocks.
struct fp8_blocks {
  uint64_t rows = 0, columns = 0;
};

/// What config.json says of fp8; nothing where it names another method or none. Refused (bad_input): codes other than
/// E4M3, blocks that are no two numbers above 0.
core::result<std::optional<fp8_blocks>> read_fp8_blocks(const std::string& config);

/// The source with `M.weight` for each E4M3 matrix of `stored`, of its scales' type: `M.weight_scale_inv` or
/// `M.weight_scale`, whatever its name a factor of the codes, for the whole weight, for each row or for each block.
/// Scales, and the ranges of activations, are not in the list. Refused with the tensor: scales that are missing, of
/// another type or shape, codes that are no matrix.
core::result<tensor_source> fp8_source(stored_tensors stored, const fp8_blocks& blocks);

}  // namespace troupe::checkpoint
