// Reads the fields of a protocol buffer without its library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

namespace troupe::data {

/// Wire type of a field in a protocol buffer: how its value is encoded.
enum wire_type : uint32_t { varint = 0, eight_bytes = 1, lengthy = 2, four_bytes = 5 };
/// Reads a protocol buffer from its beginning to its end; its functions return nullopt after broken bytes.
class wire_reader {
 public:
  explicit wire_reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  [[nodiscard]] bool at_end() const { return at_ == bytes_.size(); }
  [[nodiscard]] size_t at() const { return at_; }

  std::optional<uint64_t> number() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && at_ < bytes_.size(); shift += 7) {
      const auto b = static_cast<uint64_t>(bytes_[at_++]);
      value |= (b & 0x7F) << shift;
      if (b < 0x80) return value;
    }
    return std::nullopt;
  }

  std::optional<std::span<const std::byte>> take(uint64_t bytes) {
    if (bytes > bytes_.size() - at_) return std::nullopt;
    const auto out = bytes_.subspan(at_, bytes);
    at_ += bytes;
    return out;
  }

  /// A field of a protocol buffer: its number, its encoding, and its value (`bytes`, if the value has a length).
  struct field {
    uint64_t number = 0;
    uint64_t wire = 0;
    uint64_t value = 0;  ///< value of the field, if it is encoded as a varint
    std::span<const std::byte> bytes{};
  };
  std::optional<field> next() {
    const auto key = number();
    if (!key || *key > std::numeric_limits<uint32_t>::max())
      return std::nullopt;  // a larger number, which the library would truncate to 32 bits
    field out{*key >> 3, *key & 7, 0, {}};
    if (out.number == 0) return std::nullopt;
    if (out.wire == varint) {
      const auto value = number();
      if (!value) return std::nullopt;
      out.value = *value;
      return out;
    }
    std::optional<uint64_t> length;
    if (out.wire == eight_bytes) length = 8;
    if (out.wire == four_bytes) length = 4;
    if (out.wire == lengthy) length = number();
    if (!length) return std::nullopt;
    const auto bytes = take(*length);
    if (!bytes) return std::nullopt;
    out.bytes = *bytes;
    return out;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

}  // namespace troupe::data
