// Writes any checkpoint as one of ours, with its states, so that a run resumes it: one file, streaming. Owns how
// tensors lie in it; what they hold is the source's.
#pragma once

#include <cstdint>
#include <filesystem>

#include "checkpoint/files/progress.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Bytes of a piece, of which two are in memory.
inline constexpr uint64_t native_piece_bytes = uint64_t{32} << 20;

struct native_export_report {
  std::filesystem::path folder;  ///< of the checkpoint, below the root
  uint64_t tensors = 0, bytes = 0;
};

/// Bytes of the data file.
uint64_t native_bytes(const tensor_source& from);

/// `root`/step-00000120 with the run's numbers that `from` knows, and `root`/latest; whole or not at all. Without
/// steps it is the checkpoint of step 0.
core::result<native_export_report> export_native(const tensor_source& from, const std::filesystem::path& root,
                                                 const progress_function& progress = {});

}  // namespace troupe::checkpoint
