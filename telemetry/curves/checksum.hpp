// Computes the checksums of curve files: CRC-32C of TensorBoard's records and CRC-32 of W&B's. Owns their tables.
#pragma once

#include <cstdint>
#include <string_view>

namespace troupe::telemetry {

/// Returns the CRC-32C (Castagnoli, reflected) of RFC 3720 B.4: crc32c("123456789") = 0xE3069283.
uint32_t crc32c(std::string_view bytes);

/// Returns the CRC-32 of zlib (polynomial 0xEDB88320, reflected) of the bytes that `so_far` covers (0: none) followed
/// by `bytes`: crc32("123456789") = 0xCBF43926.
uint32_t crc32(std::string_view bytes, uint32_t so_far = 0);

}  // namespace troupe::telemetry
