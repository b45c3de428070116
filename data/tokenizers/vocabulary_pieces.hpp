// Reads the vocabulary of a SentencePiece model file.
#pragma once

#include <cstddef>
#include <span>

#include "core/error.hpp"
#include "data/tokenizers/vocabulary.hpp"

namespace troupe::data {

/// Returns pieces with scores and kinds, special tokens, and the normaliser's options. Refused: files that
/// check_sentencepiece_file() refuses, and a model that is neither BPE nor unigram.
core::result<vocabulary> pieces_of(std::span<const std::byte> file);

}  // namespace troupe::data
