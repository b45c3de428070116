// Reads the content of an expanded Parquet page: numbers in runs and packed bits, and plain texts. Leaves headers of
// pages to data/formats/columns/parquet.cpp and delta encodings to data/formats/columns/delta.hpp.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace troupe::data {

/// Reads small numbers in Parquet's RLE / bit-packing hybrid encoding: runs of equal numbers, and groups of numbers
/// with few bits.
class hybrid_reader {
 public:
  hybrid_reader(std::span<const std::byte> bytes, unsigned width) : bytes_(bytes), width_(width) {}

  /// Returns the next number; nullopt at the end of the bytes or after broken bytes.
  std::optional<uint32_t> next() {
    while (run_ == 0)
      if (!begin_run()) return std::nullopt;
    --run_;
    if (repeats_) return value_;
    uint64_t x = 0;
    const uint64_t bit = packed_bit_;
    for (uint64_t i = bit / 8, shift = 0; i <= (bit + width_ - 1) / 8 && width_ > 0; ++i, shift += 8)
      x |= static_cast<uint64_t>(bytes_[i]) << shift;
    packed_bit_ += width_;
    return static_cast<uint32_t>((x >> (bit % 8)) & ((uint64_t{1} << width_) - 1));
  }

  /// Skips at most `most` numbers that are known to equal the last one; returns how many were skipped.
  uint64_t pass_same(uint64_t most) {
    const uint64_t passed = repeats_ ? std::min(run_, most) : 0;
    run_ -= passed;
    return passed;
  }

 private:
  bool begin_run() {
    uint64_t head = 0;
    for (unsigned shift = 0;; shift += 7) {
      if (at_ == bytes_.size() || shift > 28) return false;
      const auto b = static_cast<uint64_t>(bytes_[at_++]);
      head |= (b & 0x7F) << shift;
      if (b < 0x80) break;
    }
    repeats_ = (head & 1) == 0;
    run_ = repeats_ ? head >> 1 : (head >> 1) * 8;
    const uint64_t taken = repeats_ ? (width_ + 7) / 8 : (head >> 1) * width_;
    if (taken > bytes_.size() - at_) return false;
    value_ = 0;
    if (repeats_)
      for (uint64_t i = 0; i < taken; ++i) value_ |= static_cast<uint32_t>(bytes_[at_ + i]) << (8 * i);
    packed_bit_ = at_ * 8;
    at_ += taken;
    return true;
  }

  std::span<const std::byte> bytes_;
  unsigned width_;
  size_t at_ = 0;
  bool repeats_ = false;
  uint32_t value_ = 0;
  uint64_t run_ = 0, packed_bit_ = 0;
};

/// Reads texts in Parquet's plain encoding: one after the other, each preceded by its length.
class plain_reader {
 public:
  explicit plain_reader(std::span<const std::byte> bytes, size_t at = 0) : bytes_(bytes), at_(at) {}
  [[nodiscard]] size_t at() const { return at_; }
  std::optional<std::string_view> next() {
    uint32_t length = 0;
    if (bytes_.size() - at_ < sizeof length) return std::nullopt;
    std::memcpy(&length, bytes_.data() + at_, sizeof length);
    at_ += sizeof length;
    if (length > bytes_.size() - at_) return std::nullopt;
    const std::string_view out(reinterpret_cast<const char*>(bytes_.data()) + at_, length);
    at_ += length;
    return out;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

}  // namespace troupe::data
