// The row of safetensors files in the list of formats, whether their weights are plain or compressed.
#pragma once

#include "checkpoint/source/source_format.hpp"

namespace troupe::checkpoint {

/// Weights in safetensors files, as Hugging Face's libraries write them: one file, or a folder of them.
extern const source_format hugging_face_format;

}  // namespace troupe::checkpoint
