// Folders of torch.distributed.checkpoint as a source: what FSDP, torchtitan and others save, cut over any mesh. Owns
// what their names mean; the list of chunks is distributed_metadata.hpp's, how chunks lie in a tensor chunks.hpp's.
#pragma once

#include <filesystem>
#include <string_view>

#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// Folders of Accelerate's with FSDP's sharded states: one for the model, one for the optimizer.
inline constexpr std::string_view accelerate_model_folder = "pytorch_model_fsdp_0",
                                  accelerate_optimizer_folder = "optimizer_0";

/// Of one folder, with `.metadata` or, of safetensors_shards.hpp, without it, or of the two of Accelerate's in it.
/// Weights with their own names, whatever dictionary held them
/// (`model` of `{"model": ..., "optim": ...}`), see names.hpp; a parameter that has states of the optimizer is a
/// master, `state.NAME.exp_avg` and `state.exp_avg.NAME` are its moments, their `step` the run's. States of parameters
/// that the folder does not name, all moments where a step is no number of steps, and tensors of types that are not
/// read are left out, which remarks say (left_out.hpp). Objects are not read, but for the schedule's position. Each
/// item is opened, none of its numbers read.
core::result<tensor_source> read_distributed_source(const std::filesystem::path& folder);

}  // namespace troupe::checkpoint
