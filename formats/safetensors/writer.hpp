// Writes one safetensors file as a stream: no tensor needs to be whole in memory. Owns the order of the tensors in the
// file; the caller supplies their bytes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "core/tensor_view.hpp"
#include "formats/safetensors/header.hpp"
#include "storage/files/atomic_file.hpp"

namespace troupe::formats {

/// Largest number of bytes that one call of a byte_source requests.
inline constexpr size_t write_block_bytes = size_t{4} << 20;

/// Fills `out` with the bytes of a tensor from `offset_bytes` on. Called with ascending offsets, without gaps.
using byte_source = std::function<core::result<void>(uint64_t offset_bytes, std::span<std::byte> out)>;

/// A tensor to write, with its bytes in memory or returned by a function.
struct tensor_to_write {
  std::string name;
  core::dtype type = core::dtype::f32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes = {};  ///< used if `source` is empty; must have the length that the shape needs
  byte_source source = {};
  bool is_e4m3 = false;  ///< true: bytes of type u8 are written as F8_E4M3
};

/// Metadata that Hugging Face's readers require.
inline const string_map pytorch_metadata{{"format", "pt"}};

/// Replaces `path` as a whole or leaves the old file. Tensors are stored by descending element size, then by name, so
/// that each is aligned; sources are called in that order. Refused before a byte is written: repeated names, names that
/// are not UTF-8, negative or overflowing shapes, bytes that do not fit the shape. A full disk is error_kind::no_space.
core::result<void> write_safetensors(const std::filesystem::path& path, std::span<const tensor_to_write> tensors,
                                     const string_map& metadata = pytorch_metadata);

/// Writes and syncs a file as write_safetensors() does, but leaves it under its working name, for several files that
/// must appear together.
core::result<storage::atomic_file> prepare_safetensors(const std::filesystem::path& path,
                                                       std::span<const tensor_to_write* const> tensors,
                                                       const string_map& metadata);

}  // namespace troupe::formats
