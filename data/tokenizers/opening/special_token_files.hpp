// Reads the special tokens, added words and chat templates of a tokenizer's folder from all the files that Hugging
// Face's libraries write there. No other code reads these files: the writer of GGUF files calls this reader through
// vocabulary_files.hpp, the tokenizers of text and the choice of masked tokens through open_tokenizer.hpp. Missing
// files are ignored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "core/error.hpp"
#include "data/tokenizers/special_tokens.hpp"

namespace troupe::data {

/// Returns the added words of a tokenizer's folder, ordered by token number: those in tokenizer.json's `added_tokens`,
/// tokenizer_config.json's `added_tokens_decoder` and added_tokens.json. Refused: entries without text or number, and a
/// number with two texts.
core::result<std::vector<added_word>> read_added_words(const std::filesystem::path& folder);

/// Returns the special tokens of a vocabulary of `tokens` numbers. The order of the files is that of llama.cpp's
/// converter (gguf-py's SpecialVocab): tokenizer_config.json, changed by tokenizer.json's `post_processor`, then
/// config.json's numbers. Tokens that are still missing come from special_tokens_map.json, generation_config.json, the
/// first of a list of numbers, and the words that `post_processor` puts around a text.
core::result<special_tokens> read_special_tokens(const std::filesystem::path& folder, const token_finder& number_of,
                                                 uint64_t tokens);

}  // namespace troupe::data
