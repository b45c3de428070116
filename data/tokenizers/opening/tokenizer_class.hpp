// Checks for which tokenizer class of transformers the files of a folder were made, and finds the rules by which that
// class prepares texts.
#pragma once

#include <filesystem>

#include "core/error.hpp"
#include "data/tokenizers/special_tokens.hpp"
#include "data/tokenizers/text/text_rules.hpp"

namespace troupe::data {

/// Checks `tokenizer_config.json` of a folder with vocab.json and merges.txt, if it exists. Refused (bad_input): a
/// `tokenizer_class` that is not known to merge byte pairs of words cut by a known pattern, and `add_prefix_space`.
core::result<void> check_tokenizer_class(const std::filesystem::path& folder);

/// Refuses `add_prefix_space` in the folder's `tokenizer_config.json`: transformers then adds a space to each text,
/// also where tokenizer.json does not.
core::result<void> check_no_prefix_space(const std::filesystem::path& folder);

/// Checks the files next to a SentencePiece model, if they exist; `adds_space` is true for a model that adds a space to
/// each text. Refused (bad_input): an `add_prefix_space` that differs; a `tokenizer_class` of
/// tokenizer_config.json or config.json whose tokens are not known to be the model's pieces with the model's numbers,
/// and without a class a `model_type` of config.json whose class has other numbers.
core::result<void> check_piece_class(const std::filesystem::path& folder, bool adds_space);

/// Refuses a tokenizer.json next to a SentencePiece model that gives a piece another number than the model, whose
/// numbers `number_of` returns.
core::result<void> check_piece_numbers(const std::filesystem::path& folder, const token_finder& number_of);

/// Returns the rules of a folder with vocab.json and merges.txt but without tokenizer.json, by its tokenizer class: the
/// `tokenizer_class` of tokenizer_config.json or config.json, else the class for config.json's `model_type`, else
/// GPT-2's. Refused: a class or a model type whose rules are not known.
core::result<text_rules> text_rules_by_class(const std::filesystem::path& folder);

/// Returns the rules of a folder with vocab.json and merges.txt: the rules in its tokenizer.json or, without that file,
/// those of its tokenizer class.
core::result<text_rules> text_rules_in(const std::filesystem::path& folder);

}  // namespace troupe::data
