// Finds the files of a vocabulary at a path and reads it as a list (vocabulary.hpp), with the name of its rules.
#pragma once

#include <filesystem>
#include <string>

#include "core/error.hpp"
#include "data/tokenizers/vocabulary.hpp"

namespace troupe::data {

/// Reads the vocabulary at `path`: a `.model` file; a tokenizer.json; a vocab.json with merges.txt next to it; a GGUF
/// file; or a folder that holds one of the first three, searched in this order. In a folder with vocab.json and
/// merges.txt, a `.model` is not read, because open_tokenizer() does not read it. Special tokens, added words and chat
/// templates are those of the folder (special_tokens.hpp). Refused: a kind outside vocabulary_kind, a way of cutting
/// words that is not known, `add_prefix_space` with byte pairs, a folder whose tokenizer.json differs from its
/// vocab.json or merges.txt, a
/// `.model` that SentencePiece cannot load, and folders of a `.model` or vocab.json that open_tokenizer() refuses.
core::result<vocabulary> read_vocabulary(const std::filesystem::path& path);

/// Refuses a folder whose tokenizer.json has other words or merges than the files of words and merges next to it, if
/// they exist.
core::result<void> check_words_beside(const std::filesystem::path& folder);

/// True if read_vocabulary() would find a file to read in `folder`, which may also be a GGUF file.
bool has_vocabulary(const std::filesystem::path& folder);

/// Returns llama.cpp's name of the rules of the byte-level tokenizer at `place`, a folder or a file as for
/// open_tokenizer(). The rules are those of tokenizer.json or, without that file, those of the class in
/// tokenizer_config.json. Errors are those of name_of_rules().
core::result<std::string> rules_name_at(const std::filesystem::path& place);

}  // namespace troupe::data
