// Reads and writes the part of a GGUF file before its data: metadata, and each tensor's name, extents, type and offset.
// Owns the format's bytes and every limit on what a file may claim. Source: the GGUF specification, version 3, of the
// ggml project.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "core/source_file.hpp"
#include "formats/gguf/metadata.hpp"
#include "formats/gguf/tensor_type.hpp"

namespace troupe::formats {

/// First four bytes of every GGUF file; the version number follows. Version 3 is written; 2 and 3 are read.
inline constexpr std::string_view gguf_magic = "GGUF";
inline constexpr uint32_t gguf_version = 3, oldest_gguf_version = 2;

/// Largest header that is read, in bytes. All limits of the reader are far above the sizes of any known model.
inline constexpr uint64_t max_gguf_header_bytes = uint64_t{256} << 20;
inline constexpr uint64_t max_gguf_keys = uint64_t{1} << 16;
inline constexpr uint64_t max_gguf_key_bytes = 65535;
inline constexpr uint64_t max_gguf_text_bytes = uint64_t{16} << 20;  ///< largest size of one text value, in bytes
inline constexpr uint64_t max_gguf_items = uint64_t{1} << 24;        ///< largest number of elements of one array value
inline constexpr size_t max_gguf_extents = 4;
inline constexpr uint64_t max_gguf_alignment = uint64_t{1} << 20;
/// Longest tensor name that is written, in bytes; llama.cpp reads no longer name.
inline constexpr size_t max_written_gguf_name_bytes = 63;
/// Default alignment of the tensors' first bytes, for files whose metadata lack `general.alignment`.
inline constexpr uint64_t gguf_alignment_bytes = 32;
inline constexpr std::string_view gguf_alignment_key = "general.alignment";

/// Name, type, extents and place of one tensor of a GGUF file.
struct gguf_tensor {
  std::string name;
  gguf_type type = gguf_type::f32;
  std::vector<uint64_t> extents;  ///< sizes of the dimensions: elements of a row first, then the number of rows ...
  uint64_t offset_bytes = 0;      ///< offset of the tensor's first byte from gguf_header::data_begin

  [[nodiscard]] uint64_t elements() const;
  [[nodiscard]] uint64_t bytes() const;
};

/// The metadata and the tensor list of a GGUF file.
struct gguf_header {
  gguf_metadata metadata;
  std::vector<gguf_tensor> tensors;  ///< tensors in the order of the file
  uint64_t data_begin = 0;           ///< offset in the file of the first byte of tensor data
};

/// Refuses extents that a tensor of the type `t.type` cannot have: none, too many, zero, more than 2^58 elements, rows
/// that end within a block.
core::result<void> check_gguf_extents(const gguf_tensor& t);

/// True if `begin`, the first bytes of a file, begin with gguf_magic.
bool begins_like_gguf(std::span<const std::byte> begin);

/// Reads and checks the header of `file`: counts and lengths are within the limits and the file; every tensor has a
/// known type, whole blocks in each row, an aligned first byte, and bytes inside the file that no other tensor uses.
/// Errors name the file, and the key or tensor: bad_input, limit, io.
core::result<gguf_header> read_gguf_header(const core::source_file& file);

/// Returns the bytes of a version 3 header, padded to the alignment. Sets `offset_bytes` of each tensor, so that the
/// tensors follow one another. Refused: a header that read_gguf_header() would refuse, and a tensor name longer
/// than max_written_gguf_name_bytes.
core::result<std::string> format_gguf_header(const gguf_metadata& metadata, std::vector<gguf_tensor>& tensors);

/// Returns `general.alignment`, or gguf_alignment_bytes if the key is missing. Refused: a value that is not a power of
/// two up to max_gguf_alignment.
core::result<uint64_t> alignment_of(const gguf_metadata& metadata);

}  // namespace troupe::formats
