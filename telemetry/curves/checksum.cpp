#include "telemetry/curves/checksum.hpp"

#include <array>

namespace troupe::telemetry {
namespace {

using checksum_table = std::array<uint32_t, 256>;

constexpr checksum_table table_of(uint32_t polynomial) {
  checksum_table table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) != 0 ? polynomial : 0U);
    table[i] = c;
  }
  return table;
}

constexpr checksum_table castagnoli = table_of(0x82F63B78U), zlib = table_of(0xEDB88320U);

uint32_t checksum(const checksum_table& table, std::string_view bytes, uint32_t so_far) {
  uint32_t c = ~so_far;
  for (char b : bytes) c = (c >> 8) ^ table[(c ^ static_cast<unsigned char>(b)) & 0xFF];
  return ~c;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) { return checksum(castagnoli, bytes, 0); }

uint32_t crc32(std::string_view bytes, uint32_t so_far) { return checksum(zlib, bytes, so_far); }

}  // namespace troupe::telemetry
