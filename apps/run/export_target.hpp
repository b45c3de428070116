// Checks the target of `--export` before the first step, because after the last one the weights may exist nowhere else.
// Owns the refusals. Leaves writing to models/families.
#pragma once

#include <cstdint>
#include <filesystem>

#include "core/error.hpp"

namespace troupe::apps {

/// Checks that a Hugging Face folder of `bytes` can be written at `folder`, which may be missing together with its
/// parents. Leaves nothing behind. Errors: bad_input, io, no_space.
core::result<void> check_export(const std::filesystem::path& folder, uint64_t bytes);

}  // namespace troupe::apps
