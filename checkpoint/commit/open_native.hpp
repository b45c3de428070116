// Opens a checkpoint of Troupe in any file system as a source that can be read without access to that file system.
// Leaves the machine's own files to open_source.hpp.
#pragma once

#include <filesystem>

#include "checkpoint/commit/open.hpp"
#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::checkpoint {

/// Opens the checkpoint at `path`; path, options and errors are those of open_checkpoint(). The tensors are read from
/// `files`, whatever file system a reader passes; `files` must outlive the source. Files are opened when they are read,
/// and refused if they no longer match the manifest: nothing keeps a save from removing them.
core::result<formats::tensor_source> open_native(storage::file_system& files, const std::filesystem::path& path,
                                                 const open_options& options = {});

}  // namespace troupe::checkpoint
