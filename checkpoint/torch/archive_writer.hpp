// Writes values with tensors in them as torch.save would: files that torch.load opens, with weights_only=True where
// they hold no class of somebody else's. Owns the storages' numbers and the order in the file; the container is
// zip_writer's, the values' pickle torch_value's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "checkpoint/files/streamed_file.hpp"
#include "checkpoint/safetensors/writer.hpp"
#include "checkpoint/torch/value.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Memory that tensors of a file are views of.
struct torch_storage {
  core::dtype type = core::dtype::f32;
  uint64_t numel = 0;
  std::span<const std::byte> bytes = {};  ///< used where `source` is empty
  byte_source source = {};                ///< asked with rising offsets, at most write_block_bytes at once
};

/// Where torch's archives keep what is no tensor and no pickle.
inline constexpr std::string_view extra_folder = "extra/";

/// Told the bytes of each block when it is written; an error ends the writing.
using block_written = std::function<core::result<void>(uint64_t bytes)>;

/// Replaces `path` as a whole or leaves what was there. Views of one storage share memory when they are loaded.
/// Refused: views that leave their storage, and storages with elements that no view shows, so no file is larger than
/// its tensors.
core::result<void> write_torch_archive(const std::filesystem::path& path, const torch_value& root,
                                       std::span<const torch_storage> storages, const block_written& written = {},
                                       const string_map& about = {});

/// The same behind what `to` holds already: one of several archives in a file. Gives its bytes.
core::result<uint64_t> append_torch_archive(streamed_file& to, const torch_value& root,
                                            std::span<const torch_storage> storages, const block_written& written = {});

/// None, bool, int, float or str.
using plain_value = std::variant<std::monostate, bool, int64_t, double, std::string>;
using plain_values = std::map<std::string, plain_value>;

/// A dict of tensors. Each tensor has a storage of exactly its own size; a name in `shared` (alias -> name of a tensor)
/// is one more view of that tensor's storage. The dict has the tensors in the given order, then the aliases, then
/// `values`. Each of `about` is an entry `extra/NAME` of the archive, which torch.load passes over. Refused: names
/// twice, an alias of nothing, shapes that do not fit.
core::result<void> write_torch_archive(const std::filesystem::path& path, std::span<const tensor_to_write> tensors,
                                       const std::map<std::string, std::string>& shared = {},
                                       const plain_values& values = {}, const string_map& about = {});

}  // namespace troupe::checkpoint
