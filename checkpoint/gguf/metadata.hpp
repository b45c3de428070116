// The keys and values at a GGUF file's beginning, with their exact types, so that what is read can be written again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::checkpoint {

/// Of a value; the numbers are the format's.
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

/// Bytes of one value; 0 for texts and arrays.
uint32_t size_of(gguf_value_type t);

/// A number, a text, or an array of either.
struct gguf_value {
  gguf_value_type type = gguf_value_type::u32;
  uint64_t bits = 0;  ///< of a number: its bytes, little-endian, filled up with zeros
  std::string text{};
  gguf_value_type items = gguf_value_type::u32;  ///< of an array
  std::vector<std::string> texts{};              ///< of an array of texts
  std::vector<std::byte> numbers{};              ///< of an array of numbers, one after the other

  static gguf_value of(uint32_t x);
  static gguf_value of(float x);
  static gguf_value of(bool x);
  static gguf_value of(std::string x);
  static gguf_value of(std::vector<std::string> x);
  static gguf_value of(std::span<const float> x);
  static gguf_value of(std::span<const int32_t> x);

  /// Of an integer that is not negative.
  [[nodiscard]] std::optional<uint64_t> whole() const;
  /// Of any number.
  [[nodiscard]] std::optional<double> number() const;
  /// Elements of an array; 0 of anything else.
  [[nodiscard]] uint64_t count() const;

  bool operator==(const gguf_value&) const = default;
};

/// In the file's order; no key stands there twice.
struct gguf_metadata {
  std::vector<std::pair<std::string, gguf_value>> entries;

  [[nodiscard]] const gguf_value* find(std::string_view key) const;
  [[nodiscard]] std::optional<uint64_t> whole(std::string_view key) const;
  [[nodiscard]] std::optional<double> number(std::string_view key) const;
  /// Empty where there is no such text.
  [[nodiscard]] std::string text(std::string_view key) const;
  /// Behind all others, or in the place of the key's old value.
  void set(std::string key, gguf_value value);
};

}  // namespace troupe::checkpoint
