// Opens SentencePiece models of any kind (unigram, BPE, words, characters). The only interface to the SentencePiece
// library and to the protocol buffer runtime inside it.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

#include "data/tokenizers/tokenizer.hpp"

namespace troupe::data {

/// Opens a SentencePiece `.model` file. The end-of-sentence piece is the end of text. Text that the model normalises
/// (white space, compatibility characters) decodes in its normalised form.
core::result<std::unique_ptr<tokenizer>> open_sentencepiece(const std::filesystem::path& path);
/// Returns an error (bad_input) with SentencePiece's reason if the library cannot load `model`, the bytes of a file.
core::result<void> check_loads(std::string_view model);

}  // namespace troupe::data
