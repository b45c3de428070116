// The tokenizer of a tokenizer.json: finds added words, normalizes the text between them, cuts it into words, and
// encodes the words with a model. Owns the order of these steps and the division of long texts; leaves each step to its
// own source. Byte pairs with the patterns of text_rules.hpp are the task of byte_pair.hpp, which is faster.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "core/error.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace troupe::data {

/// True if the tokenizer.json `keys` needs open_pipeline_tokenizer(): text_rules.hpp does not have its rules for
/// preparing texts, or one of the folder's added words takes blanks, must stand alone, or is found in normalized text.
/// Special words count only if they are found, as `special` states.
core::result<bool> needs_pipeline(const std::filesystem::path& path, const nlohmann::json& keys,
                                  special_words special = special_words::ordinary);

/// Opens the tokenizer.json `path`, whose object is `keys`. `truncation` and `padding` are ignored. Post-processors are
/// checked; documents get no token from them but the end of text (special_tokens.hpp). Refused: every step, model,
/// decoder and key that is not known, with its name.
core::result<std::unique_ptr<tokenizer>> open_pipeline_tokenizer(const std::filesystem::path& path,
                                                                 const nlohmann::json& keys,
                                                                 special_words special = special_words::ordinary);

}  // namespace troupe::data
