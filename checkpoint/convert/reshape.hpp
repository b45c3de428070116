// Writes any checkpoint as a folder in the form of Megatron and DeepSpeed, for larger or smaller tensor-parallel,
// pipeline and data-parallel degrees. Owns the folder's files and the order in which they are written; reshape_plan.hpp
// decides which rank has what, deepspeed/writer.hpp writes one rank's files. Only one block is in memory at a time.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "checkpoint/deepspeed/degrees.hpp"
#include "checkpoint/deepspeed/writer.hpp"
#include "checkpoint/megatron/rules.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// What is to be written.
struct reshape_options {
  parallel_degrees to;
  /// Of a pipeline, the number of each stage's first layer, as the engine that loads it has cut its own; empty: evenly.
  std::vector<uint32_t> partition = {};
  /// Of query_key_value in the source; none: its `checkpoint_version`, else 0. Only for names of Megatron's.
  std::optional<double> qkv_version = std::nullopt;
  /// Of query_key_value in what is written; none: as it is. Needs `heads`, the model's attention heads.
  std::optional<double> to_qkv_version = std::nullopt;
  uint32_t heads = 0;
  /// How parameters are cut, in place of what their names say.
  std::optional<universal_patterns> patterns = std::nullopt;
  /// How a job of ours cuts the model's parameters over `to.tensor` ranks, by name, where neither patterns nor
  /// Megatron's names say it, and where each rank has some; the rest as GPT-2's and Llama's names say.
  parameter_cuts cuts = {};
  /// Everything else, with names as the source has them; `ranks` and `place` are set here. Groups keep the parameters
  /// that a rank has. Without an optimizer in the source only model files are written, in the weights' own types.
  deepspeed_write_options write = {};
};

/// What was written.
struct reshape_report {
  std::filesystem::path folder;  ///< of the tag
  uint64_t bytes = 0;            ///< of tensors
  size_t files = 0;
};

/// Writes `root/<tag>` with mp_rank_XX_model_states.pt, of a pipeline also layer_NN-model_XX-model_states.pt, and the
/// optimizer's shards; `root/latest` names it. It appears whole or not at all. A folder of tensor-parallel ranks says
/// how it goes together: Megatron's by `checkpoint_version`, any other by `universal_checkpoint_info`. Refused before a
/// byte is written: what cannot be cut (see reshape_plan and cut_to_split), a tag that is there, too little space, and
/// what write_deepspeed_folder() refuses.
core::result<reshape_report> reshape(const tensor_source& from, const std::filesystem::path& root,
                                     const reshape_options& options, file_system& files = real_files());

}  // namespace troupe::checkpoint
