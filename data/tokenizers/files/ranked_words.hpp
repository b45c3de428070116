// A byte-level vocabulary as a list of words in the order in which merges make them, which is all that tiktoken's files
// state, and its conversion to a tokenizer.json that makes the same tokens. Source: tiktoken (the pair whose word has
// the lowest rank is merged first; a word of the list is one token).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "data/tokenizers/text/characters.hpp"

namespace troupe::data {

struct ranked_words {
  std::vector<std::string> words;                         ///< bytes of the words, by rank
  uint32_t first_token = 0;                               ///< number of the token of the first word; the others follow
  std::vector<std::pair<uint32_t, std::string>> special;  ///< numbers and texts of tokens that no text contains
  /// regular expression of a word; the bytes of a word are merged separately
  std::string_view expression;
  /// tables by which characters are composed first (NFC); nullopt: they are not composed
  std::optional<form_tables> composes{};
};

/// Returns the tokenizer.json. Refused: a word that occurs twice, also as a special token.
core::result<nlohmann::json> pipeline_of(const ranked_words& v);

}  // namespace troupe::data
