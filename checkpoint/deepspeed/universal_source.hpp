// DeepSpeed's universal checkpoint as a tensor_source: a folder `zero` with a folder per parameter, and the model-state
// files beside it.
#pragma once

#include <filesystem>

#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Whether `path` is such a folder, or names one by `latest_universal`.
bool is_universal_folder(const std::filesystem::path& path);

/// `path` holds `zero`, or `latest_universal`, which names a folder in it that does. Masters and moments are the files'
/// tensors, in the shapes that the model files list where stage 3 left them flat; the rest (16-bit weights, frozen
/// parameters, buffers, ties, the run) comes from the model files, as for other DeepSpeed folders. Of tensor-parallel
/// models there are no 16-bit weights: these files hold slices.
core::result<tensor_source> read_universal_source(const std::filesystem::path& path);

}  // namespace troupe::checkpoint
