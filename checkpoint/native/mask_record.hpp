// The mask of a pruned weight as a checkpoint stores it. Owns the form and its text; leaves the meaning of a mask to
// kernels/compress/weight_mask.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::checkpoint {

/// The mask that one pruning technique has made of one module's weight.
struct mask_record {
  std::string module, technique;  ///< "transformer.h.0.mlp.c_fc", "row_pruning"
  uint64_t elements = 0;
  /// One bit for each element, 1: kept; the first element is the lowest bit of the first byte.
  std::vector<uint8_t> bits;
  std::vector<float> scores;  ///< snip_momentum: one score for each element; other techniques: empty
  bool operator==(const mask_record&) const = default;
};

/// Converts bytes to hexadecimal digits, the upper half of a byte first, and back; bytes_of_hex() returns nothing for
/// any other text.
std::string hex_of(const std::vector<uint8_t>& bytes);
std::optional<std::vector<uint8_t>> bytes_of_hex(std::string_view text);
/// Converts fp32 numbers, as little-endian bytes, to hexadecimal digits, and back; numbers_of_hex() returns nothing for
/// any other text.
std::string hex_of(const std::vector<float>& numbers);
std::optional<std::vector<float>> numbers_of_hex(std::string_view text);

}  // namespace troupe::checkpoint
