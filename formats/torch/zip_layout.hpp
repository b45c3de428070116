// Constants of the zip format that zip_reader and zip_writer share. Fields are little-endian (PKWARE's APPNOTE 6.3,
// section 4).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::formats::zip {

inline constexpr uint32_t local_signature = 0x04034b50, central_signature = 0x02014b50, end_signature = 0x06054b50;
inline constexpr uint32_t end64_signature = 0x06064b50, locator_signature = 0x07064b50, data_signature = 0x08074b50;
inline constexpr size_t local_bytes = 30, central_bytes = 46, end_bytes = 22, end64_bytes = 56, locator_bytes = 20;
inline constexpr uint16_t zip64_field = 1;
inline constexpr uint32_t in_zip64 = 0xFFFFFFFF;  ///< content of a 32-bit field whose value is in the zip64 field
inline constexpr uint16_t in_zip64_short = 0xFFFF;
inline constexpr uint16_t encrypted_flag = 0x1, descriptor_flag = 0x8, strong_flag = 0x40, utf8_flag = 0x800,
                          masked_flag = 0x2000;

/// Returns the little-endian number in the `n` bytes (at most 8) at offset `at`, which must be inside `bytes`.
inline uint64_t number(std::span<const std::byte> bytes, uint64_t at, size_t n) {
  uint64_t value = 0;
  for (size_t i = n; i > 0; --i) value = value << 8 | std::to_integer<uint64_t>(bytes[at + i - 1]);
  return value;
}

}  // namespace troupe::formats::zip
