// The characters with which byte-level vocabularies (GPT-2's and others) write bytes as text.
#pragma once

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/utf8.hpp"

namespace troupe::data {

/// GPT-2's alphabet, which writes bytes as visible characters: visible characters of Latin-1 stand for themselves, the
/// other bytes are written as the characters from U+0100 on, in order.
struct byte_alphabet {
  std::array<uint32_t, 256> character_of{};
  std::unordered_map<uint32_t, unsigned char> byte_of;
  byte_alphabet() {
    uint32_t next = 256;
    for (uint32_t b = 0; b < 256; ++b) {
      const bool seen = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      character_of[b] = seen ? b : next++;
      byte_of[character_of[b]] = static_cast<unsigned char>(b);
    }
  }

  [[nodiscard]] std::string word_of(uint32_t byte) const {
    std::string out;
    core::append_utf8(character_of[byte], out);
    return out;
  }

  /// Returns the bytes that no word of the vocabulary represents, ascending; `has` returns true for words of the
  /// vocabulary.
  [[nodiscard]] std::vector<uint8_t> missing(auto&& has) const {
    std::vector<uint8_t> out;
    for (uint32_t b = 0; b < 256; ++b)
      if (!has(word_of(b))) out.push_back(static_cast<uint8_t>(b));
    return out;
  }

  /// Returns why a vocabulary that lacks the words of the bytes `missing` is refused; nullopt if it is not. The package
  /// `tokenizers` and llama.cpp leave out bytes without a token, and vocabularies such as SmolLM's lack bytes that are
  /// rare or that UTF-8 never has. Refused: a vocabulary that lacks an ASCII character that is seen, a space or a line
  /// feed, and, if `has_unknown` is true, one that lacks any byte, since the token for unknown ones would stand for it.
  [[nodiscard]] std::optional<std::string> fault_without(const std::vector<uint8_t>& missing, bool has_unknown) const {
    for (const uint8_t b : missing)
      if (has_unknown || b == '\n' || (b >= ' ' && b <= '~'))
        return fmt::format("not a byte-level vocabulary: it lacks '{}', which represents byte {}", word_of(b), b);
    return std::nullopt;
  }

  /// Returns the bytes that a word of the vocabulary represents; a word with other characters (a special token) is
  /// returned unchanged.
  [[nodiscard]] std::string bytes_of(std::string_view word) const {
    std::string out;
    for (std::string_view rest = word; !rest.empty();) {
      const size_t n = core::utf8_character(rest);  // never 0, because the JSON reader accepts only valid UTF-8
      uint32_t code = static_cast<unsigned char>(rest[0]);
      if (n == 2) code = (code & 0x1F) << 6 | (static_cast<unsigned char>(rest[1]) & 0x3F);
      const auto found = n <= 2 ? byte_of.find(code) : byte_of.end();
      if (found == byte_of.end()) return std::string(word);
      out.push_back(static_cast<char>(found->second));
      rest.remove_prefix(n);
    }
    return out;
  }
};

}  // namespace troupe::data
