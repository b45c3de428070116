// Parquet's delta encodings of texts: lengths as differences in packed bits, then the bytes of all; or first how much
// of the text before is repeated. Source: parquet-format's Encodings.md (DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY,
// DELTA_BYTE_ARRAY).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace troupe::data {

/// Most values of a block, and packed parts of one. Writers have 128 and 4.
inline constexpr uint64_t delta_block_max = uint64_t{1} << 20, delta_parts_max = 256;

/// Integers as differences, from front to back, in memory that does not grow with them.
class delta_numbers {
 public:
  /// What lies behind them in `bytes` is not looked at.
  explicit delta_numbers(std::span<const std::byte> bytes);

  /// Nothing behind the last one, and once the bytes are broken.
  std::optional<int64_t> next();
  [[nodiscard]] uint64_t count() const { return count_; }
  /// How many bytes they take; nothing where they are broken.
  [[nodiscard]] std::optional<size_t> bytes() const;

 private:
  uint64_t varint();
  int64_t zigzag();
  bool begin_block();
  bool begin_part();

  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool ok_ = true;
  uint64_t part_values_ = 0, parts_ = 0, count_ = 0, given_ = 0;
  int64_t value_ = 0, least_ = 0;
  std::array<uint8_t, delta_parts_max> widths_{};
  uint64_t part_ = 0, in_part_ = 0;
  size_t part_begin_ = 0;
};

class delta_texts {  ///< one page's
 public:
  /// `repeats`: DELTA_BYTE_ARRAY; else DELTA_LENGTH_BYTE_ARRAY.
  delta_texts(std::span<const std::byte> bytes, bool repeats);

  /// Good until the next call. Nothing behind the last one, and once the bytes are broken.
  std::optional<std::string_view> next();

 private:
  std::optional<delta_numbers> repeated_, lengths_;
  std::span<const std::byte> rest_;
  std::string text_;  ///< of those that repeat
};

}  // namespace troupe::data
