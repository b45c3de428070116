// Decodes numbers that fixtures store as base64 of little-endian fp32.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::tests {

inline std::vector<float> numbers_in(std::string_view base64) {
  static const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<uint8_t> bytes;
  uint32_t value = 0, held = 0;
  for (const char c : base64) {
    if (c == '=') break;
    value = value << 6 | static_cast<uint32_t>(digits.find(c));
    if ((held += 6) >= 8) bytes.push_back(static_cast<uint8_t>(value >> (held -= 8)));
  }
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
  return out;
}

}  // namespace troupe::tests
