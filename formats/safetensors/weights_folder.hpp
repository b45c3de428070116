// Reads and writes the weights of a Hugging Face folder, in one safetensors file or in shards with an index. Owns the
// names of the files, which files of an earlier export are replaced, and the map from names of tensors to files; leaves
// the names and shapes that a model requires to models/.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/safetensors/safetensors.hpp"
#include "formats/safetensors/weights_index.hpp"
#include "formats/safetensors/writer.hpp"

namespace troupe::formats {

/// Largest number of files with weights in one folder.
inline constexpr size_t max_shards = 4096;

inline constexpr std::string_view single_file_name = "model.safetensors";
inline constexpr std::string_view index_file_name = "model.safetensors.index.json";

/// The weights of a folder of safetensors files. Tensors are read on demand; any number of threads may read.
class weights_folder {
 public:
  /// Opens a folder with model.safetensors or, if that is missing, model.safetensors.index.json (or the only index of
  /// another name) and its shards; an index file; or one safetensors file. Refused: an index that names a file outside
  /// its folder, by text or through a link (links from snapshots/ to blobs/, as in the hub's cache, are inside); an
  /// index that names a tensor which its file does not hold; a tensor that two files hold and the index does not place.
  static core::result<weights_folder> open(const std::filesystem::path& path);

  struct tensor {
    const safetensors_file* file;
    const safetensors_entry* entry;
    [[nodiscard]] core::result<std::vector<std::byte>> bytes() const { return file->bytes(*entry); }
  };

  /// Returns all tensors, ascending by name. Their pointers are valid while this folder lives and is not moved.
  [[nodiscard]] std::vector<tensor> tensors() const;

  /// Returns the tensor with that name; nothing if no file has it.
  [[nodiscard]] std::optional<tensor> find(std::string_view name) const;

 private:
  struct place {
    uint32_t shard;
    uint32_t entry;
  };
  [[nodiscard]] const safetensors_entry& entry_at(place p) const { return shards_[p.shard].entries()[p.entry]; }
  core::result<void> index_names(std::span<const std::pair<std::string, uint32_t>> wanted);

  std::vector<safetensors_file> shards_;
  std::vector<place> places_;  ///< place of each tensor, ascending by name
};

/// Returns which tensors share a file, as lists of indices into `tensor_bytes`. Hugging Face's rule: tensors are
/// assigned in the given order; a tensor larger than the limit has a file of its own; any other starts a new file if
/// the current file would exceed the limit with it.
std::vector<std::vector<size_t>> plan_shards(std::span<const uint64_t> tensor_bytes, uint64_t max_shard_bytes);

/// Returns the name of file `number`, from 1, of `count` files with weights: model-00001-of-00003.safetensors, or
/// model.safetensors if it is the only one.
std::string weights_file_name(size_t number, size_t count);
/// True if `file` is a name that weights_file_name() returns for some number of files, or the name of the index.
bool is_weights_file_name(std::string_view file);

/// Returns bad_input if `folder`, which may be missing, holds weights that an export does not replace: an index of
/// another name, or pytorch_model.bin. Readers of the folder would otherwise find two models.
core::result<void> check_no_other_weights(const std::filesystem::path& folder);

/// Removes files that an earlier export left in `folder`: first the index, so that readers do not open a part of the
/// shards, then all others for whose names is_weights_file_name() is true, except those in `kept`.
core::result<void> remove_older_weights(const std::filesystem::path& folder, std::span<const std::string> kept);

/// Writes `tensors` into `folder` (created if missing) under Hugging Face's file names, with an index if there are
/// several files. All files are written and synced under working names before the first is renamed, so that a failed
/// write leaves the old files; a power cut during the renaming leaves a folder without index, which open() refuses,
/// never a mixture. Files of an earlier export under these names are replaced or removed. Refused with bad_input: a
/// folder with weights under other names (an index of another name, pytorch_model.bin).
core::result<void> write_weights_folder(const std::filesystem::path& folder, std::span<const tensor_to_write> tensors,
                                        uint64_t max_shard_bytes = default_shard_bytes);

}  // namespace troupe::formats
