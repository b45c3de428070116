#include "formats/source/mask_record.hpp"

#include <bit>
#include <cstring>

namespace troupe::formats {
namespace {

static_assert(std::endian::native == std::endian::little);
constexpr std::string_view digits = "0123456789abcdef";

std::string hex_of_bytes(const uint8_t* bytes, size_t count) {
  std::string out(2 * count, '0');
  for (size_t i = 0; i < count; ++i) {
    out[2 * i] = digits[bytes[i] >> 4];
    out[2 * i + 1] = digits[bytes[i] & 15U];
  }
  return out;
}

}  // namespace

std::string hex_of(const std::vector<uint8_t>& bytes) { return hex_of_bytes(bytes.data(), bytes.size()); }

std::string hex_of(const std::vector<float>& numbers) {
  return hex_of_bytes(reinterpret_cast<const uint8_t*>(numbers.data()), numbers.size() * sizeof(float));
}

std::optional<std::vector<uint8_t>> bytes_of_hex(std::string_view text) {
  if (text.size() % 2 != 0) return std::nullopt;
  std::vector<uint8_t> out(text.size() / 2);
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t upper = digits.find(text[2 * i]), lower = digits.find(text[2 * i + 1]);
    if (upper == std::string_view::npos || lower == std::string_view::npos) return std::nullopt;
    out[i] = static_cast<uint8_t>(upper << 4 | lower);
  }
  return out;
}

std::optional<std::vector<float>> numbers_of_hex(std::string_view text) {
  const auto bytes = bytes_of_hex(text);
  if (!bytes || bytes->size() % sizeof(float) != 0) return std::nullopt;
  std::vector<float> out(bytes->size() / sizeof(float));
  if (!out.empty()) std::memcpy(out.data(), bytes->data(), bytes->size());
  return out;
}

}  // namespace troupe::formats
