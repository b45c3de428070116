// Writes any checkpoint as a folder in the form of Megatron and DeepSpeed, for larger or smaller tensor-parallel,
// pipeline and data-parallel degrees. Owns the files of the folder and the order in which they are written;
// reshape_plan.hpp decides which rank has which tensors, deepspeed/write/writer.hpp writes one rank's files. Only one
// block is in memory at a time.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "core/error.hpp"
#include "formats/deepspeed/degrees.hpp"
#include "formats/deepspeed/write/writer.hpp"
#include "formats/megatron/rules.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::checkpoint {

/// Options of reshape(): the degrees and the form of the folder to write.
struct reshape_options {
  formats::parallel_degrees to;
  /// For a pipeline: the number of each stage's first layer, which must be that of the engine that loads the folder;
  /// empty: divided evenly.
  std::vector<uint32_t> partition = {};
  /// Megatron's `checkpoint_version` (0, 1.0 or 2.0) of the source, which determines the order of rows in
  /// query_key_value tensors; none: the version that the source records, else 0. Used only for parameters with
  /// Megatron's names.
  std::optional<double> qkv_version = std::nullopt;
  /// Megatron's `checkpoint_version` of the output: the rows of query_key_value tensors are reordered for it; none: the
  /// order of the source is kept. Requires `heads`, the model's number of attention heads.
  std::optional<double> to_qkv_version = std::nullopt;
  uint32_t heads = 0;
  /// Patterns of parameter names that determine how parameters are cut; none: the published rules for their names
  /// apply.
  std::optional<formats::universal_patterns> patterns = std::nullopt;
  /// How a job of Troupe cuts the model's parameters over `to.tensor` ranks, by name. Used if neither patterns nor
  /// Megatron's names apply, for parameters of which each rank has elements; all other parameters are cut by the rules
  /// for the names of GPT-2 and Llama.
  formats::parameter_cuts cuts = {};
  /// All other settings, with names as in the source; reshape() itself sets `ranks` and `place`. In a rank's files each
  /// group has the parameters of that rank. If the source has no optimizer, only model files are written, in the
  /// weights' own types.
  formats::deepspeed_write_options write = {};
};

/// Report about the folder that was written.
struct reshape_report {
  std::filesystem::path folder;  ///< written folder, which the tag names
  uint64_t bytes = 0;            ///< bytes of all written tensors
  size_t files = 0;
};

/// Writes the folder `root/<tag>`: mp_rank_XX_model_states.pt, for a pipeline also layer_NN-model_XX-model_states.pt,
/// and the optimizer's shards. Then writes the tag into `root/latest`. The folder appears complete or not at all. A
/// folder of tensor-parallel ranks records how their tensors are joined: Megatron's by `checkpoint_version`, all others
/// by `universal_checkpoint_info`.
/// Refused before a byte is written: tensors that cannot be cut (see reshape_plan and cut_to_split), a tag that exists,
/// too little space, and the cases that write_deepspeed_folder() refuses.
core::result<reshape_report> reshape(const formats::tensor_source& from, const std::filesystem::path& root,
                                     const reshape_options& options,
                                     storage::file_system& files = storage::real_files());

}  // namespace troupe::checkpoint
