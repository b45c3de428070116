// Which tokenizer of transformers a folder's vocab.json and merges.txt are for: families cut words by other patterns or
// normalise text, and the two files do not say so. Owns the list of those that work as GPT-2's.
#pragma once

#include <filesystem>

#include "core/error.hpp"

namespace troupe::data {

/// By `tokenizer_config.json` in `folder`, where there is one. Refused (bad_input): a `tokenizer_class` that is not
/// known to cut and merge as GPT-2's does, and `add_prefix_space`.
core::result<void> check_tokenizer_class(const std::filesystem::path& folder);

}  // namespace troupe::data
