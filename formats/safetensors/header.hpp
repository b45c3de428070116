// The header of a safetensors file: JSON with the name, type, shape and bytes of each tensor. Pure functions from text
// to checked entries and back; leaves files to safetensors.hpp and writer.hpp.
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

namespace troupe::formats {

/// Largest header in bytes, a limit of the format.
inline constexpr uint64_t max_header_bytes = 100'000'000;
/// Size of the little-endian integer before the header that contains the header's length, in bytes.
inline constexpr uint64_t header_length_bytes = 8;
/// Default size of a shard, Hugging Face's own: 5 GB.
inline constexpr uint64_t default_shard_bytes = 5'000'000'000;
/// Largest number of dimensions of one tensor.
inline constexpr size_t max_rank = 64;

/// One tensor of a safetensors file.
struct safetensors_entry {
  std::string name;
  core::dtype type = core::dtype::f32;
  std::vector<int64_t> shape;
  uint64_t begin = 0;  ///< offset of the tensor's first byte from the end of the header
  uint64_t end = 0;    ///< offset of the first byte after the tensor from the end of the header
  /// True for a tensor of type u8 whose bytes are 8-bit floats, F8_E4M3; Troupe does not compute with them.
  bool is_e4m3 = false;
  std::string unread_type{};  ///< the format's name of a type that Troupe does not read; `type` is then unused
};

using string_map = std::map<std::string, std::string>;

struct safetensors_header {                ///< tensors and metadata that a header lists
  std::vector<safetensors_entry> entries;  ///< the tensors, ascending by name
  string_map metadata;
};

/// Converts a dtype to its name in the safetensors format, such as dtype::f32 to "F32", or back.
std::string_view safetensors_name(core::dtype type);
std::optional<core::dtype> safetensors_dtype(std::string_view name);

/// Returns the size of a tensor in bytes; nothing if a dimension is negative or the product does not fit 63 bits.
std::optional<uint64_t> bytes_of(core::dtype type, const std::vector<int64_t>& shape);

using core::shown;

/// Reads `text`, the JSON before `data_bytes` bytes of data. A tensor of a type that the format has and Troupe does not
/// read (U16, F8_E5M2, C64 ...) is listed with its unread_type. Refused with the tensor named: text that is not such a
/// header, a repeated key, a dtype that the format does not have, offsets that leave the data, overlap, leave a hole or
/// differ from the bytes of the shape. Memory stays within a small multiple of the text.
core::result<safetensors_header> parse_header(std::string_view text, uint64_t data_bytes);

/// Returns the bytes of a header that lists `entries`, after 8 bytes with the header's length, padded with spaces to a
/// multiple of 8. Keeps the order of the entries, and their begin and end.
core::result<std::string> format_header(const std::vector<safetensors_entry>& entries, const string_map& metadata);

}  // namespace troupe::formats
