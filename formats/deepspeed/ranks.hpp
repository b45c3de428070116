// Joins the model-parallel ranks of a DeepSpeed checkpoint: the stages and layer files of a pipeline into one
// tensor-parallel rank, and these ranks into whole tensors. Owns the grid of ranks; leaves the rules of cutting to
// megatron/rules.hpp.
#pragma once

#include <vector>

#include "formats/deepspeed/files.hpp"
#include "formats/deepspeed/part.hpp"
#include "formats/megatron/source.hpp"
#include "formats/source/tensor_source.hpp"
#include "formats/torch/archive.hpp"

namespace troupe::formats {

/// Degrees of the grid: model-parallel rank = stage * tensor + rank within the stage.
struct deepspeed_grid {
  uint32_t stages = 1, tensor = 1;
};

/// Reads the grid from `checkpoint_parallel_dimensions` of a model file, or from the names of the layer files if it has
/// none. Refused: a grid of another size than the number of model-parallel ranks.
core::result<deepspeed_grid> grid_of(const deepspeed_files& files, const torch_archive& model);

/// Adds the tensors in the pipeline layer files of tensor-parallel rank `rank` under their names in the whole pipeline:
/// `3.weight` is `weight` of layer 3. A layer whose weights are tied over stages has its master under `tied_modules.*`;
/// if the shapes leave one choice, the tensors of its file get that name.
core::result<void> add_layers(const deepspeed_files& files, uint32_t rank, tensor_source& to);

/// Returns the rules that cut parameters: the patterns that the writer published, else the rules of Megatron's names.
/// Refused if `model` has no patterns and no name is one of Megatron's.
core::result<rule_chooser> rules_of(const torch_archive& model, const std::vector<tensor_source>& ranks);

/// Joins all tensor-parallel ranks into one source. `ranks` share one list of files. Returns an error with the name of
/// a parameter that is the mean of the ranks' values and cannot be averaged (see take_means()).
core::result<tensor_source> joined(std::vector<tensor_source> ranks, const torch_archive& model);

}  // namespace troupe::formats
