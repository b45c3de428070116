// Reads and writes the weights of a Hugging Face folder, in one safetensors file or in shards with an index. Owns the
// names of the files, which files of an earlier export are replaced, and the map from names of tensors to files; leaves
// the names and shapes that a model requires to models/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/safetensors/safetensors.hpp"
#include "formats/safetensors/weights_index.hpp"
#include "formats/safetensors/writer.hpp"
#include "storage/files/atomic_file.hpp"

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

/// The name and the size of a tensor that is to be written.
struct sized_name {
  std::string_view name;
  uint64_t bytes = 0;
};

/// The files of a folder of weights that is to be written, and the tensors of each file.
struct folder_files {
  std::vector<std::vector<size_t>> shards;  ///< [file]: indices of its tensors in the list of tensors
  std::vector<std::string> names;           ///< [file]: its name in the folder
  weight_map weights;                       ///< file of each tensor, ascending by name of the tensor
  uint64_t total_bytes = 0;
};

/// Divides tensors over the files of a folder by plan_shards(). Refused: more than max_shards files (limit), and a name
/// that occurs twice (bad_input).
core::result<folder_files> divide_into_files(std::span<const sized_name> tensors, uint64_t max_shard_bytes);

/// True if an export of some number of files may write a file of this name: model.safetensors,
/// model-00001-of-00003.safetensors, the index.
bool is_weights_file_name(std::string_view file);

/// Returns bad_input if `folder`, which may be missing, holds weights that an export does not replace: an index of
/// another name, or pytorch_model.bin. Readers of the folder would otherwise find two models.
core::result<void> check_no_other_weights(const std::filesystem::path& folder);

/// Creates `folder` if it is missing, and returns true if it was created. Errors include those of
/// check_no_other_weights().
core::result<bool> make_weights_folder(const std::filesystem::path& folder);

/// Completes a folder of weights. `files` are the files of `list`, written and synced under their working names. Writes
/// an index if there are several, removes the files of an earlier export, then renames all.
core::result<void> commit_weights(const std::filesystem::path& folder, std::vector<storage::atomic_file> files,
                                  const folder_files& list);

/// Writes `tensors` into `folder` (created if missing) under Hugging Face's file names, with an index if there are
/// several files. All files are written and synced under working names before the first is renamed, so that a failed
/// write leaves the old files; a power cut during the renaming leaves a folder without index, which open() refuses,
/// never a mixture. Files of an earlier export under these names are replaced or removed. Refused with bad_input: a
/// folder with weights under other names (an index of another name, pytorch_model.bin).
core::result<void> write_weights_folder(const std::filesystem::path& folder, std::span<const tensor_to_write> tensors,
                                        uint64_t max_shard_bytes = default_shard_bytes);

}  // namespace troupe::formats
