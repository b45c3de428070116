// The vocabulary of a SentencePiece model file.
#pragma once

#include <cstddef>
#include <span>

#include "core/error.hpp"
#include "data/tokenizers/vocabulary.hpp"

namespace troupe::data {

/// Pieces with scores and kinds, special tokens, and what the normaliser does. Refused: what
/// check_sentencepiece_file() refuses, and a model that is neither BPE nor unigram.
core::result<vocabulary> pieces_of(std::span<const std::byte> file);

}  // namespace troupe::data
