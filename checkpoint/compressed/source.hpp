// A Hugging Face folder whose linear weights are compressed (compressed-tensors, fp8), as a tensor_source: those
// weights are there with the values that their codes mean, worked out when they are read. Owns what belongs to which
// weight.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Whether config.json in `path`, or beside it, says that weights are compressed in this way. Errors: as
/// read_schemes() and read_fp8_blocks(), and foreign_refusal() of a method that is not read.
core::result<bool> is_compressed_folder(const std::filesystem::path& path);
/// Whether weights are codes there, and not only the ranges of activations or of a cache are stored. Errors: the same.
core::result<bool> has_coded_weights(const std::filesystem::path& path);

/// Why nothing begins with the compressed weights at `path` unasked, and how it may.
std::string compressed_refusal(const std::filesystem::path& path);

/// `path` as weights_folder::open() takes it. A weight of module M is `M.weight`, of the scales' type (bf16 where codes
/// are 4-bit numbers); codes, scales, zero points, and the ranges of activations, which are a run's business, are not
/// in the list. Refused (bad_input) with the tensor: parts that are missing, of another type or shape, columns in
/// another order (weight_g_idx). Reading refuses scales that are 0, negative or no finite numbers.
core::result<tensor_source> read_compressed_source(const std::filesystem::path& path);

}  // namespace troupe::checkpoint
