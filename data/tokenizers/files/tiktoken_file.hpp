// Reads the lists of words of tiktoken: lines of base64 and a rank. Owns which models' lists are known, with the
// pattern and the special tokens that the list itself does not state. Sources: the tokenizer.py files of Llama 3 and
// Qwen, and tiktoken's own table of encodings.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "core/error.hpp"
#include "data/tokenizers/files/ranked_words.hpp"

namespace troupe::data {

/// True if `file` begins like a list of tiktoken.
bool is_tiktoken_list(const std::filesystem::path& file);

/// Reads the list. The model is known by the file's name (`qwen.tiktoken`, `cl100k_base.tiktoken`,
/// `o200k_base.tiktoken`), by the class QWenTokenizer in the tokenizer_config.json next to it, or, for Llama 3's
/// tokenizer.model, by its 128,000 words or a params.json next to it with 256 words more. Special tokens are those of
/// `added_tokens_decoder` in the tokenizer_config.json next to it, else those of the model. Refused: another model;
/// lines of another form; ranks that are not 0, 1, 2 ... in some order.
core::result<ranked_words> read_tiktoken(const std::filesystem::path& file);

/// Returns the contents of the tokenizer_config.json next to the list, completed by the model's first and last token of
/// texts. Errors are those of read_tiktoken().
core::result<nlohmann::json> tiktoken_configuration(const std::filesystem::path& file);

}  // namespace troupe::data
