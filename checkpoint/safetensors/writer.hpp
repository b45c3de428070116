// Writes one safetensors file, streaming: no tensor needs to be whole in memory. Owns the order of the
// tensors in the file; where their bytes come from is the caller's business.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/files/atomic_file.hpp"
#include "checkpoint/safetensors/header.hpp"
#include "core/error.hpp"
#include "core/tensor_view.hpp"

namespace troupe::checkpoint {

/// Most bytes that a source is asked for at once.
inline constexpr size_t write_block_bytes = size_t{4} << 20;

/// Fills `out` with the bytes of a tensor from `offset_bytes` on. Called with rising offsets, without gaps.
using byte_source = std::function<core::result<void>(uint64_t offset_bytes, std::span<std::byte> out)>;

/// A tensor to write: its bytes as they lie in memory, or from a function.
struct tensor_to_write {
  std::string name;
  core::dtype type = core::dtype::f32;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes = {};  ///< used where `source` is empty; as long as the shape takes
  byte_source source = {};
  bool is_e4m3 = false;  ///< as safetensors_entry::is_e4m3
};

/// A tensor that lies in memory until it is written.
inline tensor_to_write to_write(std::string name, const core::tensor_view& view) {
  return {std::move(name), view.type, view.shape, {view.data, view.bytes()}, {}};
}

/// What Hugging Face's readers expect to find.
inline const string_map pytorch_metadata{{"format", "pt"}};

/// Replaces `path` as a whole or leaves what was there. Tensors lie in the file by falling size of their
/// element, then by name, so that each is aligned; that is also the order in which sources are asked.
/// Refused before a byte is written: names twice or not UTF-8, negative or overflowing shapes, bytes that do
/// not fit the shape. A full disk is error_kind::no_space.
core::result<void> write_safetensors(const std::filesystem::path& path, std::span<const tensor_to_write> tensors,
                                     const string_map& metadata = pytorch_metadata);

/// The same, synced but still under its working name: for several files that must appear together.
core::result<atomic_file> prepare_safetensors(const std::filesystem::path& path,
                                              std::span<const tensor_to_write* const> tensors,
                                              const string_map& metadata);

}  // namespace troupe::checkpoint
