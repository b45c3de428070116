// The folder of a model that a run learns from, as its checkpoints record it: the teacher itself is not saved.
#pragma once

#include <filesystem>

#include "checkpoint/native/manifest.hpp"
#include "core/error.hpp"

namespace troupe::actors {

/// Reads all of the folder's config.json and safetensors files. Errors: io.
core::result<checkpoint::teacher_record> teacher_record_of(const std::filesystem::path& folder);

/// A checkpoint's teacher is the run's, wherever its folder is now. Errors: mismatch.
core::result<void> check_teacher(const std::filesystem::path& checkpoint, const checkpoint::teacher_record& saved,
                                 const checkpoint::teacher_record& now);

}  // namespace troupe::actors
