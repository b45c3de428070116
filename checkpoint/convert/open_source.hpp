// Opens a checkpoint of any format: finds what is stored at a path, chooses one checkpoint, calls the open() of its
// source_format, then adds what several formats share, such as a trainer's files. Leaves the search in folders to
// folder_contents.hpp, and the reading of each format to the format's own folder.
#pragma once

#include <filesystem>

#include "core/error.hpp"
#include "formats/source/source_options.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::checkpoint {

/// Opens the source at `path`, one of: a checkpoint of Troupe or a folder of them; a DeepSpeed folder, by its `latest`
/// or a tag's own folder; a universal folder; a folder of torch.distributed.checkpoint; a Hugging Face folder; a
/// safetensors file; a file of torch.save; a GGUF file. Reads only the description of the tensors. Parts of names that
/// wrappers add are removed in all formats except Troupe's. Errors (bad_input, mismatch, io) name file or folder;
/// weights that are codes of a compression method that is not decoded are refused with the method's name.
core::result<formats::tensor_source> open_source(const std::filesystem::path& path,
                                                 const formats::source_options& options = {});

/// Returns the error `e` of reading a source that open_source() opened. If bytes of the newest checkpoint do not match
/// their digest or their CRC-32 and an older checkpoint exists, the text also explains how to open that one.
core::error with_way_around(core::error e, const std::filesystem::path& path, const formats::source_options& options);

}  // namespace troupe::checkpoint
