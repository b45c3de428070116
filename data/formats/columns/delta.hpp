// Reads Parquet's delta encodings of texts. DELTA_LENGTH_BYTE_ARRAY stores lengths as packed differences, then the
// bytes of all texts; DELTA_BYTE_ARRAY stores, before these, how many bytes each text shares with the previous one.
// Source: parquet-format's Encodings.md (DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace troupe::data {

/// Largest number of values of a block, and largest number of miniblocks (groups of packed values) of a block. Writers
/// use 128 and 4.
inline constexpr uint64_t delta_block_max = uint64_t{1} << 20, delta_parts_max = 256;

/// Reads integers stored as differences, in constant memory.
class delta_numbers {
 public:
  /// Reads the integers at the beginning of `bytes`; ignores the bytes after them.
  explicit delta_numbers(std::span<const std::byte> bytes);

  /// Returns the next integer; nullopt after the last one and after broken bytes.
  std::optional<int64_t> next();
  [[nodiscard]] uint64_t count() const { return count_; }
  /// Returns the number of bytes that the integers occupy; nullopt if the bytes are broken.
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

class delta_texts {  ///< reads the texts of one Parquet page with a delta encoding
 public:
  /// Reads a page in the encoding DELTA_BYTE_ARRAY if `repeats`, else in DELTA_LENGTH_BYTE_ARRAY.
  delta_texts(std::span<const std::byte> bytes, bool repeats);

  /// Returns the next text, valid until the next call; nullopt after the last one and after broken bytes.
  std::optional<std::string_view> next();

 private:
  std::optional<delta_numbers> repeated_, lengths_;
  std::span<const std::byte> rest_;
  std::string text_;  ///< current text, of which the next one may repeat a prefix (DELTA_BYTE_ARRAY only)
};

}  // namespace troupe::data
