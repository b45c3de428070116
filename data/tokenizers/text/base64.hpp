// Reads and writes bytes as base64 (RFC 4648), as tiktoken's lists and Mistral's tekken.json write their words and
// tokenizer.json its table of rules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::data {

/// Returns the bytes; nullopt for a text that is not base64 with its padding.
inline std::optional<std::string> from_base64(std::string_view text) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.size() % 4 != 0) return std::nullopt;
  size_t padding = 0;
  while (padding < 2 && text.ends_with('=')) {
    text.remove_suffix(1);
    ++padding;
  }
  if (text.size() % 4 == 1) return std::nullopt;
  std::string out;
  uint32_t held = 0;
  unsigned bits = 0;
  for (const char c : text) {
    const size_t value = digits.find(c);
    if (value == digits.npos) return std::nullopt;
    held = (held << 6 | static_cast<uint32_t>(value)) & 0xFFFFU;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    out.push_back(static_cast<char>(held >> bits & 0xFFU));
  }
  return out;
}

/// Returns the bytes as base64 with its padding.
inline std::string to_base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t held = 0;
    for (size_t i = 0; i < 3; ++i)
      held = held << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (size_t i = 0; i < 4; ++i) out.push_back(at + i > bytes.size() ? '=' : digits[held >> (18 - 6 * i) & 63U]);
  }
  return out;
}

}  // namespace troupe::data
