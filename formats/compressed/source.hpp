// Reads a Hugging Face folder whose linear weights are compressed (compressed-tensors, fp8) as a tensor_source. These
// weights appear with the values that their codes stand for, decoded when they are read. Owns which tensor belongs to
// which weight.
#pragma once

#include <filesystem>
#include <string>

#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

/// True if config.json in `path`, or next to it, states that weights are compressed in a way that is read here. Errors:
/// those of read_schemes() and read_fp8_blocks(), and foreign_refusal() for a method that is not read.
core::result<bool> is_compressed_folder(const std::filesystem::path& path);
/// True if the folder of `path` stores weights as codes, and not only the ranges of activations or of a cache. Errors:
/// those of is_compressed_folder().
core::result<bool> has_coded_weights(const std::filesystem::path& path);

/// Returns the sentence that explains why a run does not start with the compressed weights at `path` by itself, and
/// how the user can start it with them.
std::string compressed_refusal(const std::filesystem::path& path);

/// Opens `path`, which may be what weights_folder::open() accepts. The weight of module M is `M.weight`, in the type of
/// the scales (bf16 for codes of 4-bit numbers). Codes, scales, zero points, and the ranges of activations, which only
/// matter when the model runs, are not among the source's tensors. Returns bad_input with the tensor's name for parts
/// that are missing or of another type or shape, and for columns in another order (weight_g_idx). Reading fails for a
/// scale that is negative or not finite, and, except for fp8, for a scale of 0.
core::result<tensor_source> read_compressed_source(const std::filesystem::path& path);

}  // namespace troupe::formats
