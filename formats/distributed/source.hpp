// Opens folders of torch.distributed.checkpoint as a source: the format of FSDP, torchtitan and others, cut over any
// mesh. Owns the meaning of their names; leaves the list of chunks to distributed_metadata.hpp and the places of chunks
// in a tensor to chunks.hpp.
#pragma once

#include <filesystem>

#include "core/error.hpp"
#include "formats/source/source_format.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

/// A folder of torch.distributed.checkpoint, as FSDP, Accelerate and Megatron-Core write it.
extern const source_format distributed_format;

/// Opens one folder with `.metadata`, one without it (see safetensors_shards.hpp), or the two folders of Accelerate in
/// `folder`. Weights get their own names, whatever dictionary held them (`model` of `{"model": ..., "optim": ...}`),
/// see names.hpp. A weight with moments is a master, unless the optimizer's states hold one for it.
/// `state.NAME.exp_avg` and `state.exp_avg.NAME` are the moments of NAME; their `step` sets the step of the run. Left
/// out, with a remark (left_out.hpp): states of parameters that the folder does not name, all moments if a step is not
/// a number of steps, and tensors of types that are not read. Reads no elements of tensors except steps, and no objects
/// except steps and the schedule's position.
core::result<tensor_source> read_distributed_source(const std::filesystem::path& folder);

}  // namespace troupe::formats
