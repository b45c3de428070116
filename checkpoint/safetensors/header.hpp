// The header of a safetensors file: JSON that says which bytes are which tensor. Pure functions from
// text to checked entries and back; files are the business of safetensors.hpp and its writer.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "core/text.hpp"

namespace troupe::checkpoint {

/// The format's own limit.
inline constexpr uint64_t max_header_bytes = 100'000'000;
/// Bytes of the little-endian length in front of the header.
inline constexpr uint64_t header_length_bytes = 8;
/// Dimensions of one tensor.
inline constexpr size_t max_rank = 64;

/// One tensor of a file.
struct safetensors_entry {
  std::string name;
  core::dtype type = core::dtype::f32;
  std::vector<int64_t> shape;
  uint64_t begin = 0;    ///< first byte, counted from the end of the header
  uint64_t end = 0;      ///< one behind the last
  bool is_e4m3 = false;  ///< of type u8: each byte is a number of 8 bits, F8_E4M3, in which nothing is computed here
  std::string unread_type{};  ///< the format's name of a type that nothing here reads; `type` says nothing then
};

using string_map = std::map<std::string, std::string>;

struct safetensors_header {                ///< what a file says that it holds
  std::vector<safetensors_entry> entries;  ///< ascending by name
  string_map metadata;
};

/// "F32" <-> dtype::f32 and so on.
std::string_view safetensors_name(core::dtype type);
std::optional<core::dtype> safetensors_dtype(std::string_view name);

/// Bytes of a tensor; nothing where a dimension is negative or the product does not fit 63 bits.
std::optional<uint64_t> bytes_of(core::dtype type, const std::vector<int64_t>& shape);

using core::shown;

/// Reads the JSON `text` in front of `data_bytes` bytes of data. A tensor of a type that the format has and nothing
/// here reads (U16, F8_E5M2, C64 ...) is listed by its unread_type. Refused with the tensor named: what is not such a
/// header, a key twice, a dtype that the format has not, offsets that leave the data, overlap, leave a hole or differ
/// from what the shape takes. Memory stays within a small multiple of the text.
core::result<safetensors_header> parse_header(std::string_view text, uint64_t data_bytes);

/// The inverse, `length` in front and padded with spaces to a multiple of 8. Entries are written as they stand.
core::result<std::string> format_header(const std::vector<safetensors_entry>& entries, const string_map& metadata);

}  // namespace troupe::checkpoint
