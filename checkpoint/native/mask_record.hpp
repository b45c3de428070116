// Which parts of a weight a pruned run keeps, as a checkpoint has it. Owns the form and its text; what a mask means is
// kernels/compress/weight_mask.hpp's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::checkpoint {

/// One technique's mask of one module.
struct mask_record {
  std::string module, technique;  ///< "transformer.h.0.mlp.c_fc", "row_pruning"
  uint64_t elements = 0;
  std::vector<uint8_t> bits;  ///< a bit an element, 1: it stays; the first in the lowest bit of the first byte
  std::vector<float> scores;  ///< of snip_momentum, an element each; empty: there are none
  bool operator==(const mask_record&) const = default;
};

/// Bytes as hexadecimal digits, the upper half of a byte first; and back, nothing where the text is not that.
std::string hex_of(const std::vector<uint8_t>& bytes);
std::optional<std::vector<uint8_t>> bytes_of_hex(std::string_view text);
/// The same of fp32 numbers, little-endian.
std::string hex_of(const std::vector<float>& numbers);
std::optional<std::vector<float>> numbers_of_hex(std::string_view text);

}  // namespace troupe::checkpoint
