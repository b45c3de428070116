// Writes any checkpoint as one of Troupe's, with its states, so that a run resumes it: one file, streaming. Owns the
// layout of tensors in the file, and copies their contents from the source.
#pragma once

#include <cstdint>
#include <filesystem>

#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"
#include "storage/files/progress.hpp"

namespace troupe::checkpoint {

/// Bytes of one piece of a tensor in the file; two pieces are in memory at a time.
inline constexpr uint64_t native_piece_bytes = uint64_t{32} << 20;

struct native_export_report {
  std::filesystem::path folder;  ///< folder of the written checkpoint, below the root
  uint64_t tensors = 0, bytes = 0;
};

/// Returns the size of the data file in bytes.
uint64_t native_bytes(const formats::tensor_source& from);

/// Writes `root`/step-00000120, with the counters of the run that `from` has, and `root`/latest; as a whole or not at
/// all. If `from` has no step, the checkpoint is of step 0.
core::result<native_export_report> export_native(const formats::tensor_source& from, const std::filesystem::path& root,
                                                 const storage::progress_function& progress = {});

}  // namespace troupe::checkpoint
