// Reads Thrift's compact protocol, the form of Parquet's footer and page headers, without its library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace troupe::data {

/// Wire type of a value in Thrift's compact protocol.
enum thrift_type : uint8_t {
  t_true = 1,
  t_false,
  t_byte,
  t_i16,
  t_i32,
  t_i64,
  t_double,
  t_binary,
  t_list,
  t_set,
  t_map,
  t_struct
};

/// Reads a Thrift message from its beginning to its end. After broken bytes ok() is false, every value is 0 or empty,
/// and every loop ends.
class thrift_reader {
 public:
  explicit thrift_reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] size_t at() const { return at_; }

  /// Returns the next value as an integer; marks the message as broken if `type`, the stored type, is not an integer's.
  int64_t integer(uint8_t type) {
    if (type == t_byte) return static_cast<int8_t>(byte());
    if (type < t_i16 || type > t_i64) return broken();
    const uint64_t x = varint();
    return static_cast<int64_t>(x >> 1) ^ -static_cast<int64_t>(x & 1);
  }
  bool boolean(uint8_t type) {
    if (type != t_true && type != t_false) broken();
    return ok_ && type == t_true;
  }
  std::string_view text(uint8_t type) {
    if (type != t_binary) broken();
    const uint64_t length = varint();
    if (length > bytes_.size() - at_) broken();
    if (!ok_) return {};
    const std::string_view out(reinterpret_cast<const char*>(bytes_.data()) + at_, length);
    at_ += length;
    return out;
  }
  /// Reads a structure. `take(id, type)` reads the value of a field, or returns false to skip it.
  void structure(uint8_t type, auto take) {
    if (type != t_struct || ++depth_ > max_depth) broken();
    for (int64_t id = 0; ok_;) {
      const uint8_t head = byte();
      if (!ok_ || head == 0) break;
      id = head >> 4 != 0 ? id + (head >> 4) : integer(t_i16);
      const uint8_t of = head & 0xF;
      if (ok_ && !take(id, of)) skip(of);
    }
    --depth_;
  }
  /// Reads a list. `take(type)` reads each item.
  template <class Take>
  void list(uint8_t type, Take take) {
    if ((type != t_list && type != t_set) || ++depth_ > max_depth) broken();
    const uint8_t head = byte();
    const uint64_t count = head >> 4 == 0xF ? varint() : head >> 4;
    // A list with more items than bytes left is broken, because an item has at least one byte.
    if (count > bytes_.size() - at_) broken();
    for (uint64_t i = 0; ok_ && i < count; ++i) take(static_cast<uint8_t>(head & 0xF));
    --depth_;
  }
  void skip(uint8_t type) {
    if (type == t_true || type == t_false) return;
    if (type == t_double) return pass(8);
    if (type == t_binary) return (void)text(type);
    if (type == t_struct) return structure(type, [](int64_t, uint8_t) { return false; });
    if (type == t_list || type == t_set) return list(type, [&](uint8_t of) { skip_item(of); });
    if (type == t_map) return skip_map();
    (void)integer(type);
  }

 private:
  static constexpr int max_depth = 32;

  int64_t broken() { return ok_ = false, 0; }
  uint8_t byte() {
    if (!ok_ || at_ == bytes_.size()) return static_cast<uint8_t>(broken());
    return static_cast<uint8_t>(bytes_[at_++]);
  }
  void pass(uint64_t n) {
    if (n > bytes_.size() - at_) broken();
    if (ok_) at_ += n;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; ok_ && shift < 64; shift += 7) {
      const uint64_t b = byte();
      value |= (b & 0x7F) << shift;
      if (b < 0x80) return ok_ ? value : 0;
    }
    return static_cast<uint64_t>(broken());
  }
  void skip_item(uint8_t type) { type == t_true || type == t_false ? pass(1) : skip(type); }
  void skip_map() {
    const uint64_t count = varint();
    if (count == 0 || ++depth_ > max_depth) {
      if (count != 0) broken();
      return;
    }
    const uint8_t types = byte();
    if (count > bytes_.size() - at_) broken();
    for (uint64_t i = 0; ok_ && i < count; ++i) skip_item(types >> 4), skip_item(types & 0xF);
    --depth_;
  }

  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  int depth_ = 0;
  bool ok_ = true;
};

}  // namespace troupe::data
