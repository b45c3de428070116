#include "config/document/text_form.hpp"

#include <cstdint>

namespace troupe::config {
namespace {

bool blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

int six_bits(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+' || c == '-') return 62;
  return c == '/' || c == '_' ? 63 : -1;
}

}  // namespace

std::optional<std::string> json_in_base64(std::string_view text) {
  std::string out;
  uint32_t bits = 0;
  int held = 0;
  bool padded = false;
  for (const char c : text) {
    if (blank(c)) continue;
    if (c == '=') {
      padded = true;
      continue;
    }
    const int value = six_bits(c);
    if (value < 0 || padded) return std::nullopt;
    bits = (bits << 6U | static_cast<uint32_t>(value)) & 0xFFFFFFU;
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out.push_back(static_cast<char>(bits >> static_cast<unsigned>(held) & 0xFFU));
    if (out.size() == 1 && out[0] != '{' && !blank(out[0])) return std::nullopt;
  }
  if (out.empty() || !looks_like_json(out)) return std::nullopt;
  return out;
}

bool looks_like_json(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{';
}

}  // namespace troupe::config
