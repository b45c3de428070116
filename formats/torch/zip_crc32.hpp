// Computes the CRC-32 of zip archives (polynomial 0xEDB88320, reflected). Owns its tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::formats {

/// Returns the CRC-32 of the bytes that `so_far` covers (0: none) followed by `bytes`.
uint32_t crc32(std::span<const std::byte> bytes, uint32_t so_far = 0);

}  // namespace troupe::formats
