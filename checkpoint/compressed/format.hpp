// Declares the source_format of safetensors files, with plain or compressed weights, an entry of `all_formats` in
// convert/formats.hpp.
#pragma once

#include "checkpoint/source/source_format.hpp"

namespace troupe::checkpoint {

/// Weights in safetensors files, as Hugging Face's libraries write them: one file, or a folder of them.
extern const source_format hugging_face_format;

}  // namespace troupe::checkpoint
