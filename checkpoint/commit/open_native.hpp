// A checkpoint of ours in any file system as a source. Owns that whoever reads the source needs no file system for it;
// open_source.hpp opens what lies in the machine's own.
#pragma once

#include <filesystem>

#include "checkpoint/commit/open.hpp"
#include "checkpoint/files/file_system.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Path, options and errors as open_checkpoint()'s. Its tensors are read from `files`, which outlives the source,
/// whatever file system a reader is given. Files are opened when they are read, and refused where they are no longer
/// those of the manifest: nothing keeps a save from removing them.
core::result<tensor_source> open_native(file_system& files, const std::filesystem::path& path,
                                        const open_options& options = {});

}  // namespace troupe::checkpoint
