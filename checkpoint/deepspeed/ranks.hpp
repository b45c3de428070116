// The model-parallel ranks of a DeepSpeed checkpoint put together: a pipeline's stages and layers' files into one
// tensor-parallel rank, these into whole tensors. Owns the grid of ranks; the rules of cutting are
// megatron/rules.hpp's.
#pragma once

#include <vector>

#include "checkpoint/deepspeed/files.hpp"
#include "checkpoint/deepspeed/part.hpp"
#include "checkpoint/megatron/source.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "checkpoint/torch/archive.hpp"

namespace troupe::checkpoint {

/// Model-parallel rank = stage * tensor + rank within the stage.
struct deepspeed_grid {
  uint32_t stages = 1, tensor = 1;
};

/// From `checkpoint_parallel_dimensions` of a model file, or from the names of layers' files where it says none.
/// Refused: other than as many model-parallel ranks as are there.
core::result<deepspeed_grid> grid_of(const deepspeed_files& files, const torch_archive& model);

/// Adds the tensors of the pipeline layers' files of tensor-parallel rank `rank` under the names that the whole
/// pipeline has for them: `3.weight` is `weight` of layer 3. A layer whose weights are tied over stages has its master
/// under `tied_modules.*`; where shapes leave one choice, its file's tensors get that name.
core::result<void> add_layers(const deepspeed_files& files, uint32_t rank, tensor_source& to);

/// Which rule cuts a parameter: the patterns that the writer published, or else Megatron's names. Refused by name where
/// there are neither.
core::result<rule_chooser> rules_of(const torch_archive& model, const std::vector<tensor_source>& ranks);

/// One source of all tensor-parallel ranks. `ranks` share one list of files. Refused by name: a parameter that is the
/// mean of the ranks' values, where these differ.
core::result<tensor_source> joined(std::vector<tensor_source> ranks, const torch_archive& model);

}  // namespace troupe::checkpoint
