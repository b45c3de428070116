// The weights of a Hugging Face folder, in one file or in shards with an index. Owns which file a name
// is looked for in; names and shapes of models are left to models/.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors/safetensors.hpp"
#include "checkpoint/safetensors/weights_index.hpp"
#include "checkpoint/safetensors/writer.hpp"

namespace troupe::checkpoint {

/// Files of one folder.
inline constexpr size_t max_shards = 4096;
/// Hugging Face's own default: 5 GB.
inline constexpr uint64_t default_shard_bytes = 5'000'000'000;

inline constexpr std::string_view single_file_name = "model.safetensors";
inline constexpr std::string_view index_file_name = "model.safetensors.index.json";

/// All tensors of a folder, read when asked for; any number of threads may read.
class weights_folder {
 public:
  /// `path` is a folder with model.safetensors or, where that is missing, model.safetensors.index.json (or the only
  /// index of another name) and its shards; or such an index; or one safetensors file. An index is refused where it
  /// names a file outside its folder, by text or through a link (links from snapshots/ to blobs/, as the hub's cache
  /// lays them, are inside), or a tensor that its file does not hold; so is a tensor that two files hold and the index
  /// does not place.
  static core::result<weights_folder> open(const std::filesystem::path& path);

  struct tensor {
    const safetensors_file* file;
    const safetensors_entry* entry;
    [[nodiscard]] core::result<std::vector<std::byte>> bytes() const { return file->bytes(*entry); }
  };

  /// Ascending by name. Pointers hold as long as this folder lives and is not moved.
  [[nodiscard]] std::vector<tensor> tensors() const;

  /// Nothing where no file has such a tensor.
  [[nodiscard]] std::optional<tensor> find(std::string_view name) const;

  /// Of the first file.
  [[nodiscard]] const string_map& metadata() const { return shards_.front().metadata(); }

 private:
  struct place {
    uint32_t shard;
    uint32_t entry;
  };
  [[nodiscard]] const safetensors_entry& entry_at(place p) const { return shards_[p.shard].entries()[p.entry]; }
  core::result<void> index_names(std::span<const std::pair<std::string, uint32_t>> wanted);

  std::vector<safetensors_file> shards_;
  std::vector<place> places_;  ///< ascending by name
};

/// The index at `path`; one that names nothing is refused too.
core::result<weight_map> read_weights_index(const std::filesystem::path& path);

/// The file that an index in `folder` names, all links followed, where it lies inside.
core::result<std::filesystem::path> indexed_file(const std::filesystem::path& folder, const std::string& file);

/// Which tensors share a file: sizes in, list of lists of indices out. Hugging Face's rule: in the given
/// order, a tensor beyond the limit has a file of its own, any other opens a new file when it would not fit.
std::vector<std::vector<size_t>> plan_shards(std::span<const uint64_t> tensor_bytes, uint64_t max_shard_bytes);

/// Writes `tensors` into `folder` (made where missing) as Hugging Face names the files, with an index where
/// there is more than one. All files are written and synced aside before the first takes its name, so that an
/// error leaves the old ones; a power cut in the instant of renaming leaves a folder without index, which open()
/// refuses, never a mixture.
core::result<void> write_weights_folder(const std::filesystem::path& folder, std::span<const tensor_to_write> tensors,
                                        uint64_t max_shard_bytes = default_shard_bytes);

}  // namespace troupe::checkpoint
