// Checks the target of `--export` before the first step, because after the last one the weights may exist nowhere else.
// Owns the refusals. Leaves writing to models/families.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "core/error.hpp"

namespace troupe::apps {

/// Weights that a run reads: the key that names them, and a folder or a file; an empty path: none.
struct read_weights {
  std::string key;
  std::filesystem::path path;
};

/// Checks that a Hugging Face folder of `bytes` can be written at `folder`, which may be missing together with its
/// parents, and that this replaces none of the weights in `read`. Leaves nothing behind. Errors: bad_input, io,
/// no_space.
core::result<void> check_export(const std::filesystem::path& folder, uint64_t bytes,
                                std::span<const read_weights> read);

}  // namespace troupe::apps
