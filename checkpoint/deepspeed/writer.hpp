// Writes any checkpoint as a folder that DeepSpeed resumes from, at any ZeRO stage and data-parallel degree. Owns the
// options, the folder's files and their order of appearing; what they hold is deepspeed_model's and deepspeed_state's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/files/file_system.hpp"
#include "checkpoint/files/progress.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Ranks that a folder is written for.
inline constexpr uint32_t max_deepspeed_ranks = 1 << 15;

/// One parameter group of the optimizer, as torch.optim's state dicts have it.
struct deepspeed_parameter_group {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.0;
  std::vector<std::string> parameters = {};  ///< as the source names them; in one group it may be empty: the others
  std::string more = "{}";                   ///< JSON object: keys that are added, or replace those above
};

/// Of which model-parallel rank the files are. A model of several is as many folders, whose files reshape.hpp puts
/// together.
struct deepspeed_place {
  uint32_t rank = 0;                ///< stage * tensor + rank within the stage
  uint32_t stages = 1, tensor = 1;  ///< pipeline and tensor degree
  bool module_apart = false;        ///< a pipeline's module lies in its layers' files
};

/// What a source does not say.
struct deepspeed_write_options {
  uint32_t stage = 2;                          ///< 0 to 3
  uint32_t ranks = 1;                          ///< data-parallel
  core::dtype weight_type = core::dtype::f32;  ///< that DeepSpeed computes in: f32, bf16 or f16
  std::optional<std::string> tag = {};         ///< none: global_step<steps>
  std::vector<deepspeed_parameter_group> groups = {{}};
  bool integer_step = false;                ///< steps as Python's int, as DeepSpeed's own optimizers want them; else
                                            ///< as torch.optim's tensors
  uint64_t sub_group_size = 1'000'000'000;  ///< stage 3: zero_optimization.sub_group_size of the engine that loads
  std::optional<double> clip_grad = {};     ///< none: the engine keeps its own
  std::string ds_config = {};               ///< JSON object; empty: the least that says stage and type
  std::string ds_version = "0.19.8";
  std::string lr_scheduler = {};  ///< JSON object; empty: {last_batch_iteration} where the source says it
  bool exclude_frozen_parameters = false;
  std::function<std::string(const std::string&)> name =
      {};                                          ///< from a source's name to the written one; empty: the same
  std::map<std::string, std::string> shared = {};  ///< more tied names: alias -> parameter, both as written
  std::vector<std::string> order = {};             ///< parameters as the source names them, in the order in which
                                                   ///< the model registers them; empty: the source's own
  deepspeed_place place = {};
  progress_function progress = {};
};

/// What was written.
struct deepspeed_report {
  std::filesystem::path folder;  ///< of the tag
  uint64_t bytes = 0;            ///< of tensors
  size_t files = 0;
};

/// Makes `root` where it is missing, writes `root/<tag>` under a working name, synced, then renames it and `latest`. An
/// error or a crash leaves what was there. zero_to_fp32.py, which DeepSpeed puts beside `latest`, is DeepSpeed's own
/// and not written. Refused, before a byte is written: a tag that is there, masters of other types than fp32, moments
/// that some parameters of a group lack, an unknown order of parameters, names that clash, groups that do not cover,
/// too little space.
core::result<deepspeed_report> write_deepspeed_folder(const tensor_source& from, const std::filesystem::path& root,
                                                      const deepspeed_write_options& options,
                                                      file_system& files = real_files());

}  // namespace troupe::checkpoint
