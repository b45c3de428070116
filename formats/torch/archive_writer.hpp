// Writes values that contain tensors as torch.save does: files that torch.load opens, with weights_only=True if they
// contain no foreign class. Owns the storages' numbers and their order in the file; leaves the container to
// zip_writer.hpp and the values' pickle to value.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "core/error.hpp"
#include "formats/safetensors/writer.hpp"
#include "formats/torch/value.hpp"
#include "storage/files/streamed_file.hpp"

namespace troupe::formats {

/// One storage of a torch.save file; the file's tensors are views of storages.
struct torch_storage {
  core::dtype type = core::dtype::f32;
  uint64_t numel = 0;
  std::span<const std::byte> bytes = {};  ///< contents of the storage; used if `source` is empty
  byte_source source = {};                ///< returns the contents in order, at most write_block_bytes a call
};

/// Folder of a torch archive for entries that are neither tensor nor pickle.
inline constexpr std::string_view extra_folder = "extra/";

/// Function that is called with the size of each block after the block is written; an error stops the writing.
using block_written = std::function<core::result<void>(uint64_t bytes)>;

/// Writes an archive with the value `root`. Replaces `path` as a whole or leaves the old file. Views of one storage
/// share memory when they are loaded. Refused: views that leave their storage, and storages with elements that no view
/// uses, so that no file is larger than its tensors.
core::result<void> write_torch_archive(const std::filesystem::path& path, const torch_value& root,
                                       std::span<const torch_storage> storages, const block_written& written = {},
                                       const string_map& about = {});

/// Appends an archive to the content of `to`, which may contain several archives. Returns the size of the archive.
core::result<uint64_t> append_torch_archive(storage::streamed_file& to, const torch_value& root,
                                            std::span<const torch_storage> storages, const block_written& written = {});

/// A value that becomes Python's None, bool, int, float or str.
using plain_value = std::variant<std::monostate, bool, int64_t, double, std::string>;
using plain_values = std::map<std::string, plain_value>;

/// Writes a dict of tensors. Each tensor has a storage of exactly its own size; a name in `shared` (alias -> name of a
/// tensor) is one more view of that tensor's storage. The dict has the tensors in the given order, then the aliases,
/// then `values`. Each entry of `about` is an entry `extra/NAME` of the archive, which torch.load ignores. Refused:
/// repeated names, an alias of a missing tensor, a tensor whose bytes do not match its shape.
core::result<void> write_torch_archive(const std::filesystem::path& path, std::span<const tensor_to_write> tensors,
                                       const std::map<std::string, std::string>& shared = {},
                                       const plain_values& values = {}, const string_map& about = {});

}  // namespace troupe::formats
