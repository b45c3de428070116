// Where a run exports its weights to (`--export`): looked at before the first step, since the weights are in no other
// place after the last one. Owns what is refused beforehand; models/families writes the files.
#pragma once

#include <cstdint>
#include <filesystem>

#include "core/error.hpp"

namespace troupe::apps {

/// Whether a Hugging Face folder of `bytes` can be written at `folder`, which may be missing with the folders around
/// it. Nothing stays of the attempt. Errors: bad_input, io, no_space.
core::result<void> check_export(const std::filesystem::path& folder, uint64_t bytes);

}  // namespace troupe::apps
