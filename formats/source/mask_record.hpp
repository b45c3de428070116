// The mask of a pruned weight as a checkpoint stores it. Owns the record and its text; leaves the meaning of a mask to
// kernels/compress/weight_mask.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::formats {

/// The mask that one pruning technique has made of one module's weight.
struct mask_record {
  std::string module, technique;  ///< names such as "transformer.h.0.mlp.c_fc" and "row_pruning"
  uint64_t elements = 0;
  /// Mask with one bit for each element of the weight, 1: kept. The first element is the lowest bit of the first byte.
  std::vector<uint8_t> bits;
  std::vector<float> scores;  ///< one score per element for snip_momentum; empty for other techniques
  bool operator==(const mask_record&) const = default;
};

/// Converts bytes to hexadecimal digits, the upper half of a byte first. bytes_of_hex() converts back; returns nothing
/// for any other text.
std::string hex_of(const std::vector<uint8_t>& bytes);
std::optional<std::vector<uint8_t>> bytes_of_hex(std::string_view text);
/// Converts fp32 numbers, as little-endian bytes, to hexadecimal digits. numbers_of_hex() converts back; returns
/// nothing for any other text.
std::string hex_of(const std::vector<float>& numbers);
std::optional<std::vector<float>> numbers_of_hex(std::string_view text);

}  // namespace troupe::formats
