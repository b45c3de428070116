// Opens folders of torch.distributed.checkpoint as a source: the format of FSDP, torchtitan and others, cut over any
// mesh. Owns the meaning of their names; leaves the list of chunks to distributed_metadata.hpp and the places of chunks
// in a tensor to chunks.hpp.
#pragma once

#include <filesystem>
#include <string_view>

#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

/// Folders that Accelerate writes with FSDP's sharded states: one for the model, one for the optimizer.
inline constexpr std::string_view accelerate_model_folder = "pytorch_model_fsdp_0",
                                  accelerate_optimizer_folder = "optimizer_0";

/// Opens one folder with `.metadata`, one without it (see safetensors_shards.hpp), or the two folders of Accelerate in
/// `folder`. Weights get their own names, whatever dictionary held them (`model` of `{"model": ..., "optim": ...}`),
/// see names.hpp. A weight with moments is a master, unless the optimizer's states hold one for it.
/// `state.NAME.exp_avg` and `state.exp_avg.NAME` are the moments of NAME; their `step` sets the step of the run. Left
/// out, with a remark (left_out.hpp): states of parameters that the folder does not name, all moments if a step is not
/// a number of steps, and tensors of types that are not read. Reads no elements of tensors except steps, and no objects
/// except steps and the schedule's position.
core::result<tensor_source> read_distributed_source(const std::filesystem::path& folder);

}  // namespace troupe::formats
