// The record of a teacher's folder in checkpoints: a teacher, the model that a run learns from, is not saved itself.
#pragma once

#include <filesystem>

#include "checkpoint/native/manifest.hpp"
#include "core/error.hpp"

namespace troupe::actors {

/// Reads the folder's config.json and safetensors files completely, and returns their record. Errors: io.
core::result<checkpoint::teacher_record> teacher_record_of(const std::filesystem::path& folder);

/// Checks that the checkpoint's teacher is the run's, regardless of the path of its folder. Errors: mismatch.
core::result<void> check_teacher(const std::filesystem::path& checkpoint, const checkpoint::teacher_record& saved,
                                 const checkpoint::teacher_record& now);

}  // namespace troupe::actors
