// Sorts the files of a DeepSpeed checkpoint by their names: ranks and layers. Owns the rules of names; opens no file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "core/error.hpp"
#include "storage/files/file_system.hpp"

namespace troupe::formats {

/// Maximum number of files in one folder.
inline constexpr size_t max_deepspeed_files = 1 << 16;

struct deepspeed_file {
  std::filesystem::path path;
  uint32_t dp = 0;     ///< data-parallel rank; 0 if the name has none
  uint32_t mp = 0;     ///< model-parallel rank; for a layer file the tensor-parallel rank
  uint32_t layer = 0;  ///< number of the pipeline layer, if the file is a layer file
};

struct deepspeed_files {
  std::filesystem::path folder;       ///< folder that contains the files
  std::vector<deepspeed_file> model;  ///< files `*_model_states.pt`, ascending by (mp, dp)
  /// optimizer shards: files `*optim_states.pt`, also with the prefix `bf16_` and without the underscore before
  /// `optim`
  std::vector<deepspeed_file> optimizer;
  std::vector<deepspeed_file> layers;  ///< files `layer_*` of a pipeline, ascending by (layer, mp)
  bool has_offloaded = false;          ///< true: the folder contains `offloaded_tensors`
};

/// True if the folder has a file of DeepSpeed's among its first `most` names.
bool holds_deepspeed_files(const std::filesystem::path& folder, size_t most = storage::max_folder_entries);

/// The names that the model file of a rank may have. In a universal folder it also exists under its name of stage 3, so
/// that every stage loads it; with `both` that second file is left out of the list.
enum class model_file_names : uint8_t { one, both };

/// Lists the files of a tag's folder. Returns an error that names the file for files of experts, two files of one rank
/// and missing ranks, and an error for a folder without any model file, which is no DeepSpeed checkpoint.
core::result<deepspeed_files> list_deepspeed_files(const std::filesystem::path& folder,
                                                   model_file_names names = model_file_names::one);

}  // namespace troupe::formats
