// Reads safetensors files, with plain or compressed weights (compressed-tensors, fp8), as a tensor_source. Compressed
// linear weights appear with the values that their codes stand for, decoded when they are read. Owns which tensor
// belongs to which weight; leaves plain weights to weights/hugging_face.hpp.
#pragma once

#include <filesystem>
#include <string>

#include "core/error.hpp"
#include "formats/compressed/scheme.hpp"
#include "formats/source/source_format.hpp"

namespace troupe::formats {

/// Weights in safetensors files, as Hugging Face's libraries write them: one file, or a folder of them.
extern const source_format hugging_face_format;

/// Returns the compression that config.json in `path`, or next to it, states. Errors: those of compression_in(),
/// and foreign_refusal() for a method that is not read.
core::result<weight_compression> compression_of(const std::filesystem::path& path);

/// Returns the sentence that explains why a run does not start with the compressed weights at `path` by itself, and
/// how the user can start it with them.
std::string compressed_refusal(const std::filesystem::path& path);

}  // namespace troupe::formats
