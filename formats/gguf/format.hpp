// Declares the source_format of GGUF files, an entry of `foreign_formats` in rows.hpp.
#pragma once

#include "formats/source/source_format.hpp"

namespace troupe::formats {

/// A GGUF file of llama.cpp; folders are not of this format.
extern const source_format gguf_format;

}  // namespace troupe::formats
