// Opens a checkpoint of Troupe as a source: by its format in the machine's own files, as any other format is opened, or
// from any file system. Leaves finding the checkpoint to open.hpp.
#pragma once

#include <filesystem>

#include "checkpoint/commit/open.hpp"
#include "core/error.hpp"
#include "formats/source/source_format.hpp"
#include "formats/source/tensor_source.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::checkpoint {

/// A checkpoint of Troupe, or a folder of checkpoints from which open() takes the one that `latest` names.
extern const formats::source_format troupe_format;

/// Opens the checkpoint at `path`; path, options and errors are those of open_checkpoint(). The tensors are read from
/// `files`, whatever file system a reader passes; `files` must outlive the source. Files are opened when they are read,
/// and refused if they no longer match the manifest: nothing keeps a save from removing them.
core::result<formats::tensor_source> open_native(storage::file_system& files, const std::filesystem::path& path,
                                                 const open_options& options = {});

}  // namespace troupe::checkpoint
