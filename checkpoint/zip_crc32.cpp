// Eight bytes a step: table k holds the sum of a byte followed by k zero bytes (Kounavis and Berry, 2005).
#include "checkpoint/zip_crc32.hpp"

#include <array>

#include "checkpoint/zip_layout.hpp"

namespace troupe::checkpoint {
namespace {

using tables = std::array<std::array<uint32_t, 256>, 8>;

constexpr tables made() {
  tables t{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t sum = i;
    for (int bit = 0; bit < 8; ++bit) sum = (sum & 1) != 0 ? sum >> 1 ^ 0xEDB88320U : sum >> 1;
    t[0][i] = sum;
  }
  for (size_t k = 1; k < 8; ++k)
    for (size_t i = 0; i < 256; ++i) t[k][i] = t[k - 1][i] >> 8 ^ t[0][t[k - 1][i] & 0xFF];
  return t;
}

constexpr tables table = made();

}  // namespace

uint32_t crc32(std::span<const std::byte> bytes, uint32_t so_far) {
  uint32_t sum = ~so_far;
  size_t at = 0;
  for (; bytes.size() - at >= 8; at += 8) {
    const uint64_t eight = zip::number(bytes, at, 8) ^ sum;
    sum = 0;
    for (size_t k = 0; k < 8; ++k) sum ^= table[7 - k][eight >> (8 * k) & 0xFF];
  }
  for (; at < bytes.size(); ++at) sum = sum >> 8 ^ table[0][(sum ^ std::to_integer<uint32_t>(bytes[at])) & 0xFF];
  return ~sum;
}

}  // namespace troupe::checkpoint
