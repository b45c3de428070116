// Checks for which tokenizer of transformers a folder's vocab.json and merges.txt are made: families cut words by other
// patterns or normalise text, which the two files do not state. Owns the list of classes that work as GPT-2's.
#pragma once

#include <filesystem>

#include "core/error.hpp"

namespace troupe::data {

/// Checks `tokenizer_config.json` in `folder`, if it exists. Refused (bad_input): a `tokenizer_class` that is not known
/// to cut and merge as GPT-2's does, and `add_prefix_space`.
core::result<void> check_tokenizer_class(const std::filesystem::path& folder);

}  // namespace troupe::data
