// Finds the kind of tokenizer that a path names, and opens it.
#pragma once

#include <filesystem>
#include <memory>

#include "core/error.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace troupe::data {

/// Opens the tokenizer at `path`. Empty path: bytes. A `.model` file, or a folder with tokenizer.model and without
/// vocab.json: SentencePiece. A folder with vocab.json and merges.txt, or that vocab.json itself: byte pairs. A
/// tokenizer.json, or a folder with it: the steps that it names (pipeline_tokenizer.hpp). A GGUF file or a list of
/// words: the vocabulary in it (made_files.hpp). The folder's special tokens and added words are used
/// (special_tokens.hpp). Errors (bad_input): any other path, files that are truncated or of another kind, and steps
/// that are not known. With special_words::tokens, the texts of special tokens become these tokens, as in transformers;
/// SentencePiece's library finds none, so a folder with a .model then needs a tokenizer.json, too, which is opened.
core::result<std::unique_ptr<tokenizer>> open_tokenizer(const std::filesystem::path& path,
                                                        special_words special = special_words::ordinary);

}  // namespace troupe::data
