// The keys and values at the beginning of a GGUF file, with their exact types, so that values that were read can be
// written back unchanged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::formats {

/// Type of a metadata value, with the format's own numbers.
enum class gguf_value_type : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  text = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};
inline constexpr uint32_t gguf_value_types = 13;

/// Returns the size in bytes of one value of type `t`; 0 for texts and arrays.
uint32_t size_of(gguf_value_type t);

/// One metadata value: a number, a text, or an array of numbers or texts.
struct gguf_value {
  gguf_value_type type = gguf_value_type::u32;
  uint64_t bits = 0;  ///< value of a number: its little-endian bytes, padded with zeros to 64 bits
  std::string text{};
  gguf_value_type items = gguf_value_type::u32;  ///< type of an array's elements
  std::vector<std::string> texts{};              ///< elements of an array of texts
  std::vector<std::byte> numbers{};              ///< elements of an array of numbers, one after the other

  static gguf_value of(uint32_t x);
  static gguf_value of(float x);
  static gguf_value of(bool x);
  static gguf_value of(std::string x);
  static gguf_value of(std::vector<std::string> x);
  static gguf_value of(std::span<const float> x);
  static gguf_value of(std::span<const int32_t> x);

  /// Returns the value of an integer that is not negative; nothing for any other value.
  [[nodiscard]] std::optional<uint64_t> whole() const;
  /// Returns the value of any number; nothing for a text or an array.
  [[nodiscard]] std::optional<double> number() const;
  /// Returns the number of elements of an array; 0 for any other value.
  [[nodiscard]] uint64_t count() const;

  bool operator==(const gguf_value&) const = default;
};

/// Metadata keys and values of a GGUF file, in its order; every key occurs once.
struct gguf_metadata {
  std::vector<std::pair<std::string, gguf_value>> entries;

  [[nodiscard]] const gguf_value* find(std::string_view key) const;
  [[nodiscard]] std::optional<uint64_t> whole(std::string_view key) const;
  [[nodiscard]] std::optional<double> number(std::string_view key) const;
  /// Returns the text of `key`; empty if the key is missing or its value is not a text.
  [[nodiscard]] std::string text(std::string_view key) const;
  /// Replaces the value of `key` in place, or appends the key after all others.
  void set(std::string key, gguf_value value);
};

}  // namespace troupe::formats
