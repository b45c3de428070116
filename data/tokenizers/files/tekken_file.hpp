// Reads Mistral's tekken.json: words by rank in base64, a pattern, and special tokens, which have the first numbers.
// Source: mistral-common (tokens/tokenizers/tekken.py).
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "core/error.hpp"

namespace troupe::data {

/// Returns the tokenizer.json of the vocabulary in `file`. Words beyond `default_vocab_size` are left out, and missing
/// special tokens are called <SPECIAL_n>, as in mistral-common. Refused: keys that are missing or of another type,
/// words out of order, and special tokens that neither the file nor its version (v1 to v7) states.
core::result<nlohmann::json> tekken_pipeline(const std::filesystem::path& file);

/// Returns a tokenizer_config.json with the special tokens of texts, as far as one next to `file` does not state them.
core::result<nlohmann::json> tekken_configuration(const std::filesystem::path& file);

}  // namespace troupe::data
