// The weights of a GGUF file as a tensor_source: those of a known family under its own names and in its own order,
// any other's as they lie. Only the header is read.
#pragma once

#include <filesystem>

#include "checkpoint/gguf/header.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Blocks are read as fp32. source_run::model has Hugging Face's keys where the family is known. Refused: what
/// read_gguf_header() refuses, and a family's tensor of an impossible shape.
core::result<tensor_source> read_gguf_source(const std::filesystem::path& path);

/// The metadata of the file that `s` is of; empty where it is none.
core::result<gguf_metadata> gguf_metadata_of(const tensor_source& s);

}  // namespace troupe::checkpoint
