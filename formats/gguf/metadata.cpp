#include "formats/gguf/metadata.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace troupe::formats {

uint32_t size_of(gguf_value_type t) {
  switch (t) {
    case gguf_value_type::u8:
    case gguf_value_type::i8:
    case gguf_value_type::boolean:
      return 1;
    case gguf_value_type::u16:
    case gguf_value_type::i16:
      return 2;
    case gguf_value_type::u32:
    case gguf_value_type::i32:
    case gguf_value_type::f32:
      return 4;
    case gguf_value_type::u64:
    case gguf_value_type::i64:
    case gguf_value_type::f64:
      return 8;
    case gguf_value_type::text:
    case gguf_value_type::array:
      return 0;
  }
  return 0;
}

gguf_value gguf_value::of(uint32_t x) { return {.type = gguf_value_type::u32, .bits = x}; }
gguf_value gguf_value::of(float x) { return {.type = gguf_value_type::f32, .bits = std::bit_cast<uint32_t>(x)}; }
gguf_value gguf_value::of(bool x) { return {.type = gguf_value_type::boolean, .bits = x ? 1U : 0U}; }
gguf_value gguf_value::of(std::string x) { return {.type = gguf_value_type::text, .text = std::move(x)}; }
gguf_value gguf_value::of(std::vector<std::string> x) {
  return {.type = gguf_value_type::array, .items = gguf_value_type::text, .texts = std::move(x)};
}
gguf_value gguf_value::of(std::span<const float> x) {
  const auto bytes = std::as_bytes(x);
  return {.type = gguf_value_type::array, .items = gguf_value_type::f32, .numbers = {bytes.begin(), bytes.end()}};
}
gguf_value gguf_value::of(std::span<const int32_t> x) {
  const auto bytes = std::as_bytes(x);
  return {.type = gguf_value_type::array, .items = gguf_value_type::i32, .numbers = {bytes.begin(), bytes.end()}};
}

std::optional<uint64_t> gguf_value::whole() const {
  const auto from = [](int64_t x) { return x < 0 ? std::nullopt : std::optional(static_cast<uint64_t>(x)); };
  switch (type) {
    case gguf_value_type::u8:
    case gguf_value_type::u16:
    case gguf_value_type::u32:
    case gguf_value_type::u64:
      return bits;
    case gguf_value_type::i8:
      return from(static_cast<int8_t>(bits));
    case gguf_value_type::i16:
      return from(static_cast<int16_t>(bits));
    case gguf_value_type::i32:
      return from(static_cast<int32_t>(bits));
    case gguf_value_type::i64:
      return from(static_cast<int64_t>(bits));
    default:
      return std::nullopt;
  }
}

std::optional<double> gguf_value::number() const {
  switch (type) {
    case gguf_value_type::f32:
      return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    case gguf_value_type::f64:
      return std::bit_cast<double>(bits);
    case gguf_value_type::i8:
      return static_cast<int8_t>(bits);
    case gguf_value_type::i16:
      return static_cast<int16_t>(bits);
    case gguf_value_type::i32:
      return static_cast<int32_t>(bits);
    case gguf_value_type::i64:
      return static_cast<double>(static_cast<int64_t>(bits));
    default: {
      const auto w = whole();
      return w ? std::optional(static_cast<double>(*w)) : std::nullopt;
    }
  }
}

uint64_t gguf_value::count() const {
  if (type != gguf_value_type::array) return 0;
  return items == gguf_value_type::text ? texts.size() : numbers.size() / std::max(size_of(items), 1U);
}

const gguf_value* gguf_metadata::find(std::string_view key) const {
  const auto at = std::find_if(entries.begin(), entries.end(), [key](const auto& e) { return e.first == key; });
  return at == entries.end() ? nullptr : &at->second;
}

std::optional<uint64_t> gguf_metadata::whole(std::string_view key) const {
  const auto* v = find(key);
  return v == nullptr ? std::nullopt : v->whole();
}

std::optional<double> gguf_metadata::number(std::string_view key) const {
  const auto* v = find(key);
  return v == nullptr ? std::nullopt : v->number();
}

std::string gguf_metadata::text(std::string_view key) const {
  const auto* v = find(key);
  return v == nullptr || v->type != gguf_value_type::text ? std::string() : v->text;
}

void gguf_metadata::set(std::string key, gguf_value value) {
  for (auto& [name, old] : entries)
    if (name == key) {
      old = std::move(value);
      return;
    }
  entries.emplace_back(std::move(key), std::move(value));
}

}  // namespace troupe::formats
