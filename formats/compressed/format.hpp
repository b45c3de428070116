// Declares the source_format of safetensors files, with plain or compressed weights, an entry of `foreign_formats` in
// rows.hpp.
#pragma once

#include "formats/source/source_format.hpp"

namespace troupe::formats {

/// Weights in safetensors files, as Hugging Face's libraries write them: one file, or a folder of them.
extern const source_format hugging_face_format;

}  // namespace troupe::formats
