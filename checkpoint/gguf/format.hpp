// Declares the source_format of GGUF files, an entry of `all_formats` in convert/formats.hpp.
#pragma once

#include "checkpoint/source/source_format.hpp"

namespace troupe::checkpoint {

/// A GGUF file of llama.cpp; folders are not of this format.
extern const source_format gguf_format;

}  // namespace troupe::checkpoint
