// Writes any checkpoint as a folder from which DeepSpeed resumes, at any ZeRO stage and data-parallel degree. Owns the
// options, the files of the folder and the order in which they appear; leaves their contents to model.hpp and
// state.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"
#include "storage/files/file_system.hpp"
#include "storage/files/progress.hpp"

namespace troupe::formats {

/// Maximum number of data-parallel ranks of a folder.
inline constexpr uint32_t max_deepspeed_ranks = 1 << 15;

/// One parameter group of the optimizer, as in torch.optim's state dicts.
struct deepspeed_parameter_group {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.0;
  std::vector<std::string> parameters = {};  ///< names in the source; may be empty in one group: all other parameters
  std::string more = "{}";                   ///< JSON object of further keys of the group; replaces keys of equal name
};

/// The model-parallel rank of the files. A model with several such ranks is written as several folders, whose files
/// reshape.hpp merges.
struct deepspeed_place {
  uint32_t rank = 0;                ///< model-parallel rank: stage * tensor + rank within the stage
  uint32_t stages = 1, tensor = 1;  ///< pipeline and tensor-parallel degree of the model
  bool module_apart = false;        ///< true: the module is stored in layer files (pipeline)
};

/// Settings of the written folder that cannot be derived from the source.
struct deepspeed_write_options {
  uint32_t stage = 2;                          ///< ZeRO stage, 0 to 3
  uint32_t ranks = 1;                          ///< number of data-parallel ranks
  core::dtype weight_type = core::dtype::f32;  ///< type that DeepSpeed computes in: f32, bf16 or f16
  std::optional<std::string> tag = {};         ///< name of the folder; none: global_step<steps>
  std::vector<deepspeed_parameter_group> groups = {{}};
  /// True: steps are Python ints, as DeepSpeed's own optimizers require; else tensors, as in torch.optim.
  bool integer_step = false;
  uint64_t sub_group_size = 1'000'000'000;  ///< stage 3: zero_optimization.sub_group_size of the engine that loads
  std::string ds_config = {};               ///< configuration to write, a JSON object; empty: only stage and type
  std::string ds_version = "0.19.8";
  std::string lr_scheduler = {};  ///< schedule's JSON object; empty: {last_batch_iteration} if the source has it
  bool exclude_frozen_parameters = false;
  std::function<std::string(const std::string&)> name = {};  ///< maps source names to written names; empty: unchanged
  std::map<std::string, std::string> shared = {};            ///< additional tied names: alias -> parameter, as written
  /// Names in the source, in the order in which the model registers the parameters; empty: the source's own order.
  std::vector<std::string> order = {};
  deepspeed_place place = {};
  storage::progress_function progress = {};
};

/// Report about the folder that was written.
struct deepspeed_report {
  std::filesystem::path folder;  ///< written folder, which the tag names
  uint64_t bytes = 0;            ///< bytes of all written tensors
  size_t files = 0;
};

/// Creates `root` if it is missing, writes `root/<tag>` under a working name, synced, then renames it and replaces
/// `latest`. An error or a crash leaves the previous state. zero_to_fp32.py, which DeepSpeed puts next to `latest`, is
/// DeepSpeed's own and is not written. Refused, before a byte is written: a tag that exists, masters of other types
/// than fp32, a weight without a master next to parameters that have one, moments that some parameters of a group lack,
/// an unknown order of parameters, names that clash, groups that do not cover all parameters, too little space.
core::result<deepspeed_report> write_deepspeed_folder(const tensor_source& from, const std::filesystem::path& root,
                                                      const deepspeed_write_options& options,
                                                      storage::file_system& files = storage::real_files());

}  // namespace troupe::formats
