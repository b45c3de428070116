// The CRC-32 of zip archives (polynomial 0xEDB88320, reflected). Owns its tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace troupe::checkpoint {

/// Goes on from `so_far`, the value for the bytes before (0 for none).
uint32_t crc32(std::span<const std::byte> bytes, uint32_t so_far = 0);

}  // namespace troupe::checkpoint
