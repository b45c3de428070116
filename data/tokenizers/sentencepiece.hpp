// SentencePiece models, whatever their kind (unigram, BPE, words, characters). The only place that sees the library
// and, inside it, a protocol buffer runtime of its own.
#pragma once

#include <filesystem>
#include <memory>

#include "data/tokenizers/tokenizer.hpp"

namespace troupe::data {

/// Reads a `.model` file; see open_tokenizer. Its end-of-sentence piece is the end of text. What the model normalises
/// (white space, compatibility characters) decodes in its normal form.
core::result<std::unique_ptr<tokenizer>> open_sentencepiece(const std::filesystem::path& path);

}  // namespace troupe::data
