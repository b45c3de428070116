// What stands before a GGUF file's tensors: metadata, and each tensor's name, extents, type and place. Owns the
// format's bytes and every limit on what a file may claim. Source: the GGUF specification, version 3, of the ggml
// project.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/gguf/metadata.hpp"
#include "checkpoint/gguf/tensor_type.hpp"
#include "core/error.hpp"
#include "core/source_file.hpp"

namespace troupe::checkpoint {

/// How a file begins: these bytes and a version, which is written, or read from the older one on.
inline constexpr std::string_view gguf_magic = "GGUF";
inline constexpr uint32_t gguf_version = 3, oldest_gguf_version = 2;

/// Limits of what is read, far above any model's.
inline constexpr uint64_t max_gguf_header_bytes = uint64_t{256} << 20;
inline constexpr uint64_t max_gguf_keys = uint64_t{1} << 16;
inline constexpr uint64_t max_gguf_key_bytes = 65535;
inline constexpr uint64_t max_gguf_text_bytes = uint64_t{16} << 20;  ///< of one value
inline constexpr uint64_t max_gguf_items = uint64_t{1} << 24;        ///< of one array
inline constexpr size_t max_gguf_extents = 4;
inline constexpr uint64_t max_gguf_alignment = uint64_t{1} << 20;
/// Of a tensor's name that is written: llama.cpp reads no longer one.
inline constexpr size_t max_written_gguf_name_bytes = 63;
/// Of tensors' first bytes, where `general.alignment` does not say another one.
inline constexpr uint64_t gguf_alignment_bytes = 32;
inline constexpr std::string_view gguf_alignment_key = "general.alignment";

/// One tensor.
struct gguf_tensor {
  std::string name;
  gguf_type type = gguf_type::f32;
  std::vector<uint64_t> extents;  ///< the fastest first: a row's elements, then rows
  uint64_t offset_bytes = 0;      ///< from the data's beginning on

  [[nodiscard]] uint64_t elements() const;
  [[nodiscard]] uint64_t bytes() const;
};

/// All of it.
struct gguf_header {
  gguf_metadata metadata;
  std::vector<gguf_tensor> tensors;  ///< in the file's order
  uint64_t data_begin = 0;           ///< byte of the file
};

/// Refuses extents that no tensor of its type has: none, too many, zero, beyond 2^58 elements, rows of parts of blocks.
core::result<void> check_gguf_extents(const gguf_tensor& t);

/// Whether a file begins as GGUF files do.
bool begins_like_gguf(std::span<const std::byte> begin);

/// Reads and checks it: counts and lengths within the limits and the file, every tensor of a known type, with whole
/// blocks in a row, at its alignment, inside the file and apart from all others. Errors name the file, and the key or
/// tensor: bad_input, limit, io.
core::result<gguf_header> read_gguf_header(const core::source_file& file);

/// The bytes of a header, version 3, filled up to the alignment; gives the tensors their places, one after the other.
/// Refused: what could not be read back.
core::result<std::string> format_gguf_header(const gguf_metadata& metadata, std::vector<gguf_tensor>& tensors);

/// `general.alignment`, else the usual one. Refused: no power of two.
core::result<uint64_t> alignment_of(const gguf_metadata& metadata);

}  // namespace troupe::checkpoint
