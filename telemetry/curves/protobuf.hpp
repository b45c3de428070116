// Encodes and decodes the fields of protocol buffers, in which TensorBoard's and W&B's files have their records. Pure
// functions; leaves the numbers and meanings of fields to event_record.hpp and wandb_record.hpp.
// Source: protobuf.dev/programming-guides/encoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::telemetry {

enum class wire_type : uint32_t {
  varint = 0,
  eight_bytes = 1,
  bytes = 2,
  four_bytes = 5
};  ///< encoding of a field's value

/// Appends an unsigned integer of fixed size, its lowest byte first.
void put_little_endian(std::string& out, auto x) {
  for (size_t i = 0; i < sizeof x; ++i) out += static_cast<char>((x >> (8 * i)) & 0xFF);
}

/// Appends an integer in groups of seven bits, the lowest first.
inline void put_varint(std::string& out, uint64_t x) {
  for (; x >= 0x80; x >>= 7) out += static_cast<char>((x & 0x7F) | 0x80);
  out += static_cast<char>(x);
}

/// Appends what precedes a field's value: its number and encoding.
inline void put_key(std::string& out, uint32_t field, wire_type as) {
  put_varint(out, uint64_t{field} << 3 | static_cast<uint32_t>(as));
}

/// Appends a field with an integer.
inline void put_integer(std::string& out, uint32_t field, uint64_t x) {
  put_key(out, field, wire_type::varint);
  put_varint(out, x);
}

/// Appends a field with a text or an encoded message.
inline void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_key(out, field, wire_type::bytes);
  put_varint(out, bytes.size());
  out += bytes;
}

/// A decoded field: `number` is its number, `integer` its value if it is a varint, `bytes` its value otherwise.
struct proto_field {
  uint64_t number = 0, integer = 0;
  std::string_view bytes;
};

/// Removes an integer from the front of `in`; nullopt if it is cut off or has more than 64 bits.
inline std::optional<uint64_t> take_varint(std::string_view& in) {
  uint64_t x = 0;
  for (uint32_t shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto c = static_cast<unsigned char>(in.front());
    in.remove_prefix(1);
    x |= uint64_t{c & 0x7FU} << shift;
    if (c < 0x80) return x;
  }
  return std::nullopt;
}

/// Removes a field from the front of `in`; nullopt at the end, and for bytes that are no field.
inline std::optional<proto_field> take_field(std::string_view& in) {
  const auto key = take_varint(in);
  if (!key) return std::nullopt;
  proto_field out{*key >> 3, 0, {}};
  uint64_t size = 0;
  switch (static_cast<wire_type>(*key & 7)) {
    case wire_type::varint: {
      const auto value = take_varint(in);
      if (!value) return std::nullopt;
      out.integer = *value;
      return out;
    }
    case wire_type::eight_bytes:
      size = 8;
      break;
    case wire_type::four_bytes:
      size = 4;
      break;
    case wire_type::bytes: {
      const auto length = take_varint(in);
      if (!length) return std::nullopt;
      size = *length;
      break;
    }
    default:
      return std::nullopt;
  }
  if (size > in.size()) return std::nullopt;
  out.bytes = in.substr(0, static_cast<size_t>(size));
  in.remove_prefix(static_cast<size_t>(size));
  return out;
}

}  // namespace troupe::telemetry
