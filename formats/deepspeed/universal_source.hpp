// Opens DeepSpeed's universal checkpoint as a tensor_source: a folder `zero` with one folder per parameter, and the
// model-state files next to it.
#pragma once

#include <filesystem>

#include "core/error.hpp"
#include "formats/source/source_format.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

/// A universal checkpoint of DeepSpeed, with a folder for each parameter.
extern const source_format universal_format;

/// Opens the universal checkpoint in `folder`, which contains `zero`. Masters and moments are the tensors of the files
/// in `zero`, in the shapes that the model files list if stage 3 left them flat; the rest (16-bit weights, frozen
/// parameters, buffers, ties, the run) comes from the model files, as for other DeepSpeed folders. Tensor-parallel
/// models have no 16-bit weights: their model files hold slices.
core::result<tensor_source> read_universal_source(const std::filesystem::path& folder);

}  // namespace troupe::formats
