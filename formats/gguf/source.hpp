// Opens a GGUF file as a tensor_source. Opening reads only the file's header; the elements are read when a tensor of
// the source is read. Tensors of a known family get the model's names and element order; in any other file, tensors
// keep the file's names and element order.
#pragma once

#include <filesystem>

#include "core/error.hpp"
#include "formats/gguf/header.hpp"
#include "formats/source/source_format.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

/// A GGUF file of llama.cpp; folders are not of this format.
extern const source_format gguf_format;

/// Opens the GGUF file at `path` as a source. Quantised blocks are read as fp32. source_run::model has Hugging Face's
/// keys if the family is known. Refused: files that read_gguf_header() refuses, and a tensor of a known family with an
/// impossible shape.
core::result<tensor_source> read_gguf_source(const std::filesystem::path& path);

/// Returns the metadata of the GGUF file that `s` was read from; empty if `s` comes from another format.
core::result<gguf_metadata> gguf_metadata_of(const tensor_source& s);

}  // namespace troupe::formats
