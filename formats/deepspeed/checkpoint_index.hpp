// Indexes a folder of DeepSpeed or Megatron by its files: the files that make a rank of other degrees, the files that
// hold a layer, and their tensors joined. Leaves the arithmetic to degrees.hpp and the joining rules to
// megatron/rules.hpp. Refuses larger degrees than the written ones, as DeepSpeed's class DeepSpeedCheckpoint does;
// checkpoint/convert/reshape.hpp writes folders for smaller and for larger degrees.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "formats/deepspeed/degrees.hpp"
#include "formats/deepspeed/state_value.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

using path_list = std::vector<std::filesystem::path>;

/// The degrees for whose ranks files are listed, and the position of the final norm among the layers.
struct index_options {
  std::optional<uint32_t> pipeline, tensor, data;  ///< wanted degrees; none: the degree of the written folder
  int64_t final_norm_layer = -1;                   ///< index of the final norm among the layers; negative: from the end
};

/// The values of a shard, and the files that hold the pieces of its tensors.
struct merged_state {
  state_value value;
  std::vector<source_file> files;
};

/// An index of the files of a folder, and of the files that each rank of the wanted degrees needs. Counterpart of
/// DeepSpeed's class DeepSpeedCheckpoint.
class checkpoint_index {
 public:
  /// Indexes every file below `folder`. Reads only names, containers and pickles, each model file once. Refused: no
  /// model file; `checkpoint_parallel_dimensions` that some files lack, that differ or that do not fit the number of
  /// files; wanted degrees that are larger than the written ones or do not divide them.
  static core::result<checkpoint_index> open(const std::filesystem::path& folder, const index_options& options = {});

  [[nodiscard]] const parallel_degrees& written() const { return written_; }
  [[nodiscard]] const parallel_degrees& wanted() const { return wanted_; }
  [[nodiscard]] const path_list& layer_files() const { return layer_files_; }
  /// Returns the paths of the model files, one for each model-parallel rank, ascending by rank.
  [[nodiscard]] const path_list& model_files() const { return model_files_; }
  /// Returns the paths of the optimizer's shards, ascending by (data-parallel rank, model-parallel rank).
  [[nodiscard]] const path_list& zero_files() const { return zero_files_; }
  /// Returns the value of the key `iteration` in the first model file; 0 if the file has no such key.
  [[nodiscard]] int64_t iteration() const { return iteration_; }
  /// Returns a dict with `args`, `checkpoint_info` and `universal_checkpoint_info` if the first model file has them.
  [[nodiscard]] const state_value& global_state() const { return global_; }
  /// Returns the names `layer_01` and so on, by number: the embedding first, then the transformer layers, then the
  /// final norm at the index given in the options. Layers after the final norm have no known role.
  [[nodiscard]] const std::vector<std::string>& layer_keys() const { return layer_keys_; }

  /// Returns the optimizer files for a rank of the wanted degrees. Refused: ranks beyond the degrees.
  [[nodiscard]] core::result<path_list> zero_files_of(uint32_t pipeline, uint32_t tensor, uint32_t data) const;
  [[nodiscard]] core::result<path_list> model_files_of(uint32_t pipeline, uint32_t tensor) const;
  [[nodiscard]] core::result<path_list> embedding_files(uint32_t tensor) const;
  [[nodiscard]] core::result<path_list> final_norm_files(uint32_t tensor) const;
  /// Returns the names of the transformer layers in one pipeline stage; every stage has the same number of them.
  /// Refused if the number of transformer layers does not divide by the number of stages.
  [[nodiscard]] core::result<std::vector<std::string>> transformer_layers(uint32_t pipeline) const;
  [[nodiscard]] core::result<std::vector<path_list>> transformer_files(uint32_t pipeline, uint32_t tensor) const;

  /// Returns the tensors of the embedding's files, joined by layer_rule(). transformer_state() joins each layer's files
  /// in this way; final_norm_state() reads only the first file of the final norm, which every rank has whole.
  [[nodiscard]] core::result<tensor_source> embedding_state(uint32_t tensor) const;
  [[nodiscard]] core::result<tensor_source> final_norm_state(uint32_t tensor) const;
  [[nodiscard]] core::result<std::vector<tensor_source>> transformer_state(uint32_t pipeline, uint32_t tensor) const;
  /// Returns the model files of a rank, merged by merge_state().
  [[nodiscard]] core::result<merged_state> model_state(uint32_t pipeline, uint32_t tensor) const;
  /// Returns the optimizer's shard for a rank: its files merged without the top-level keys in `ignored` and, if `strip`
  /// is true, without padding. partition_count becomes the wanted data degree and group_paddings become 0.
  [[nodiscard]] core::result<merged_state> state_for_rank(uint32_t pipeline, uint32_t tensor, uint32_t data,
                                                          std::span<const std::string> ignored = {},
                                                          bool strip = true) const;

 private:
  core::result<void> list_files();
  core::result<void> read_model_files();
  core::result<void> take_degrees(const index_options& options, uint64_t first_layers_files,
                                  const std::optional<parallel_degrees>& said);
  [[nodiscard]] core::result<path_list> layer_files_of(size_t layer, uint32_t tensor) const;
  [[nodiscard]] core::result<size_t> final_norm() const;
  [[nodiscard]] core::result<void> check_rank(uint32_t pipeline, uint32_t tensor, uint32_t data) const;

  std::filesystem::path folder_;
  path_list layer_files_, model_files_, zero_files_;
  std::vector<std::string> layer_keys_;
  std::vector<path_list> files_of_layer_;  ///< files of each layer in layer_keys_, by tensor-parallel rank
  parallel_degrees written_, wanted_;
  file_lists cells_2d_, cells_3d_;
  int64_t iteration_ = 0, final_norm_layer_ = -1;
  state_value global_;
  std::optional<parallel_degrees> said_;
};

}  // namespace troupe::formats
