// The outer shape of a SentencePiece `.model` file, a protocol buffer: read far enough to refuse what is cut short or
// of another kind before the library sees it, which would take half a vocabulary for a whole one.
#pragma once

#include <cstdint>
#include <span>

#include "core/error.hpp"

namespace troupe::data {

struct sentencepiece_shape {
  uint64_t pieces = 0;
};

/// Walks the fields of `ModelProto` (sentencepiece_model.proto): pieces (1), trainer (2) and normalizer (3) must all be
/// there, each whole, and the tables of rules of normalizer and denormalizer (5) lead nowhere else
/// (sentencepiece_rules.hpp). Errors name the byte and, inside the vocabulary, the piece.
core::result<sentencepiece_shape> check_sentencepiece_file(std::span<const std::byte> file);

}  // namespace troupe::data
