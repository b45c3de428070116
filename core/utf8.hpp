// Validates UTF-8 text. Used by readers of files that must not pass on any other text.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace troupe::core {

/// Returns the bytes of the valid UTF-8 character at the start of `text`; 0 if there is none (Unicode 15, table 3-7).
inline size_t utf8_character(std::string_view text) {
  const auto at = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned a = at(0);
  const auto tail = [&](size_t i) { return (at(i) & 0xC0U) == 0x80U; };
  if (text.empty()) return 0;
  if (a < 0x80) return 1;
  if (a < 0xC2) return 0;
  if (a < 0xE0) return tail(1) ? 2 : 0;
  if (a < 0xF0) {
    if (a == 0xE0 && at(1) < 0xA0) return 0;   // overlong encoding in three bytes
    if (a == 0xED && at(1) >= 0xA0) return 0;  // half of a surrogate pair
    return tail(1) && tail(2) ? 3 : 0;
  }
  if (a > 0xF4 || (a == 0xF0 && at(1) < 0x90) || (a == 0xF4 && at(1) >= 0x90)) return 0;
  return tail(1) && tail(2) && tail(3) ? 4 : 0;
}

/// Returns the length of the longest prefix that is valid UTF-8.
inline size_t utf8_prefix(std::string_view text) {
  size_t at = 0;
  for (;;) {
    uint64_t eight;
    while (at + sizeof eight <= text.size()) {
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & 0x8080808080808080ULL) != 0) break;
      at += sizeof eight;
    }
    const size_t n = utf8_character(text.substr(at));
    if (n == 0) return at;
    at += n;
  }
}

/// True if the whole text is valid UTF-8.
inline bool is_utf8(std::string_view text) { return utf8_prefix(text) == text.size(); }

/// Returns the number of the character at the start of `text`, which must begin with a valid character.
inline uint32_t utf8_code(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[i])); };
  const uint32_t a = at(0);
  if (a < 0x80) return a;
  if (a < 0xE0) return (a & 0x1F) << 6 | (at(1) & 0x3F);
  if (a < 0xF0) return (a & 0x0F) << 12 | (at(1) & 0x3F) << 6 | (at(2) & 0x3F);
  return (a & 0x07) << 18 | (at(1) & 0x3F) << 12 | (at(2) & 0x3F) << 6 | (at(3) & 0x3F);
}

/// Returns the byte at which the character begins that ends before byte `at` (above 0) of `text`.
inline size_t utf8_begin_before(std::string_view text, size_t at) {
  do {
    --at;
  } while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U);
  return at;
}

/// Returns the length of `text` without an incomplete character at its end.
inline size_t utf8_whole(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0U) == 0x80U) continue;
    const size_t wanted = byte < 0xC2 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : byte < 0xF5 ? 4 : 1;
    return wanted > back ? text.size() - back : text.size();
  }
  return text.size();
}

/// Appends the character `code` (below 0x110000) as UTF-8 bytes.
inline void append_utf8(uint32_t code, std::string& out) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xC0 | code >> 6), put(0x80 | (code & 63));
  } else if (code < 0x10000) {
    put(0xE0 | code >> 12), put(0x80 | (code >> 6 & 63)), put(0x80 | (code & 63));
  } else {
    put(0xF0 | code >> 18), put(0x80 | (code >> 12 & 63)), put(0x80 | (code >> 6 & 63)), put(0x80 | (code & 63));
  }
}

}  // namespace troupe::core
