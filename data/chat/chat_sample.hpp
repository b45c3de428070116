// Encodes the text of a conversation, and finds the tokens whose loss counts. Owns which side of a border a token
// belongs to; leaves rows of several samples to packing.hpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "data/chat/conversation.hpp"
#include "data/chat/rendering.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace troupe::data {

/// Tokens [begin, end) of a sample.
struct token_span {
  uint64_t begin = 0, end = 0;
  bool operator==(const token_span&) const = default;
};

struct chat_sample {
  std::vector<uint32_t> tokens;
  /// Tokens that count as targets: ascending, separate, none empty, and without token 0, which nothing precedes.
  std::vector<token_span> counted;
};

/// Returns the number of tokens of `text` that begin before its byte `at`, a border between characters. `all` are the
/// tokens of the whole text. A token that extends across the border begins before it. If the tokens of the text before
/// the border are not the first tokens of the whole text, the lengths of decoded texts decide.
core::result<size_t> tokens_before(tokenizer& by, std::string_view text, std::span<const uint32_t> all, size_t at);

/// Returns the tokens of a rendered conversation; a token counts if its first byte is in a part that counts. Errors:
/// those of the tokenizer.
core::result<chat_sample> sample_of(const chat_format& by, const rendered_conversation& from);

/// Returns the sample of prepared tokens.
chat_sample sample_of(labelled_tokens from);

/// A part of a sample's text, of tokens that all count or all do not.
struct counted_text {
  std::string text;
  bool counts = false;
};

/// Returns the text of a sample, for people, divided where tokens begin or cease to count.
std::vector<counted_text> texts_of(const chat_sample& x, const tokenizer& by);

/// Cuts a sample to its first `most` tokens.
void cut_sample(chat_sample& x, uint64_t most);

/// Returns how many tokens of a sample count.
uint64_t counted_tokens(const chat_sample& x);

}  // namespace troupe::data
