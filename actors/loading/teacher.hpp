// The record in checkpoints of the teacher, the model that a run is distilled from: a checkpoint holds a digest of the
// files in the teacher's folder, and none of its parameters.
#pragma once

#include <filesystem>

#include "core/error.hpp"
#include "formats/source/run_records.hpp"

namespace troupe::actors {

/// Reads the config.json and the safetensors files of a teacher's folder completely, and returns the record that
/// identifies them. Errors: io.
core::result<formats::teacher_record> teacher_record_of(const std::filesystem::path& folder);

/// Checks that the run's teacher `now` has the same contents as the teacher `saved` in the checkpoint, whatever the
/// path of its folder. Errors: mismatch.
core::result<void> check_teacher(const std::filesystem::path& checkpoint, const formats::teacher_record& saved,
                                 const formats::teacher_record& now);

}  // namespace troupe::actors
