// A Troupe checkpoint as a source of tensors, and its verification. Leaves finding and opening the checkpoint to
// commit/open.hpp.
#pragma once

#include <filesystem>

#include "checkpoint/native/manifest_file.hpp"
#include "core/error.hpp"
#include "formats/report/verify.hpp"
#include "formats/source/tensor_source.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::checkpoint {

/// Returns a Troupe checkpoint as a source.
formats::tensor_source source_of(const checkpoint_folder& c);

/// Calls verify_source() for the Troupe checkpoint in `folder`. Returns an error if its manifest is refused.
core::result<formats::verify_report> verify_checkpoint(storage::file_system& files,
                                                       const std::filesystem::path& folder);

}  // namespace troupe::checkpoint
